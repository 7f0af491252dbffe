/* Answers to OPEN and RELEASE of files and directories that the kernel has in its page cache, and to what ends the
 * listing of any directory, without Python.
 *
 * pyfuse3 has libfuse read each request (fuse_session_receive_buf). Here stands a function of that name which pyfuse3
 * finds first, as this module is loaded before it, for all to see. Opens.turn, which is called where the mount waits
 * for a request, reads them from the device itself, answers those that it can, and leaves the first other one to
 * fuse_session_receive_buf. All of this happens in the one thread that answers requests, so nothing is ever answered
 * between a change and what follows from it. Where anything is not as expected, libfuse reads, as it does without this.
 *
 * Two more functions stand in for some of libfuse, for what pyfuse3 cannot say. The one that puts an entry into a
 * listing lets it go out without an inode: then the kernel passes its name on, and keeps nothing of it. The one that
 * answers an open lets the kernel keep what it lists of a directory from the first time on.
 */

#define PY_SSIZE_T_CLEAN
#define _GNU_SOURCE
#include <Python.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <linux/fuse.h>
#include <sys/uio.h>

#ifndef FOPEN_NOFLUSH
#define FOPEN_NOFLUSH (1 << 5)
#endif

/* The number of what Python finds here: one more with every change of that. */
#define INTERFACE 6
/* The largest request that libfuse asks for: 256 pages to be written, and their header. */
#define REQUEST_BYTES ((256 + 1) * 4096)
/* Numbers of open files from here on are given here, and lower ones in Python. */
#define FIRST_HANDLE ((uint64_t)1 << 62)
/* For so long requests are answered without a look at anything else. */
#define TURN_NS 2000000
/* A processor that is given away for longer has others to run: whoever asks may be one of them. */
#define SHARED_NS 10000
/* The most opens of watched files that Python is told of at once. */
#define MOST_READ 256
/* The most released directories that Python is told of at once. */
#define MOST_RELEASED 256

/* Leads the names of the attributes that say who may do what. No file here has any. */
#define ACCESS_LIST "system.posix_acl_"

/* libfuse's struct fuse_buf, as it has been since version 3.0. */
struct buffer {
    size_t size;
    int flags;
    void *memory;
    int fd;
    off_t position;
};

/* The beginning of libfuse's struct fuse_file_info, as it has been since version 3.5. */
struct file_info {
    int32_t flags;
    unsigned int before : 6;
    unsigned int cache_readdir : 1;
    unsigned int behind : 25;
    uint32_t padding[2];
    uint64_t handle;
};

/* -- tables of numbers, none of which is 0, with or without numbers for them ------------------------------------- */

struct table {
    uint64_t *keys;   /* 0 where nothing is */
    uint64_t *values; /* NULL: there are none */
    size_t mask;
    size_t count;
};

static size_t
place(const struct table *table, uint64_t key)
{
    size_t at = (key * 0x9E3779B97F4A7C15u) >> 20 & table->mask;

    while (table->keys[at] != 0 && table->keys[at] != key)
        at = (at + 1) & table->mask;
    return at;
}

static int
table_make(struct table *table, size_t size, int with_values)
{
    table->keys = calloc(size, sizeof(uint64_t));
    table->values = with_values ? calloc(size, sizeof(uint64_t)) : NULL;
    table->mask = size - 1;
    table->count = 0;
    if (table->keys != NULL && (table->values != NULL || !with_values))
        return 0;
    free(table->keys);
    free(table->values);
    table->keys = table->values = NULL;
    return -1;
}

static void
table_free(struct table *table)
{
    free(table->keys);
    free(table->values);
}

static void
table_clear(struct table *table)
{
    memset(table->keys, 0, (table->mask + 1) * sizeof(uint64_t));
    table->count = 0;
}

static int
table_has(const struct table *table, uint64_t key)
{
    return key != 0 && table->keys[place(table, key)] == key;
}

/* Returns where the value of a key is, NULL if it has none. */
static uint64_t *
table_get(const struct table *table, uint64_t key)
{
    return table_has(table, key) ? &table->values[place(table, key)] : NULL;
}

/* Puts in a key, with value 0 if it is new: 0, or -1 if there is no memory. */
static int
table_put(struct table *table, uint64_t key)
{
    size_t at;

    if (table->count > table->mask / 4 * 3) {
        struct table larger;
        if (table_make(&larger, (table->mask + 1) * 2, table->values != NULL) < 0)
            return -1;
        for (size_t old = 0; old <= table->mask; old++) {
            if (table->keys[old] != 0) {
                at = place(&larger, table->keys[old]);
                larger.keys[at] = table->keys[old];
                if (larger.values != NULL)
                    larger.values[at] = table->values[old];
            }
        }
        larger.count = table->count;
        table_free(table);
        *table = larger;
    }
    at = place(table, key);
    if (table->keys[at] == 0) {
        table->keys[at] = key;
        if (table->values != NULL)
            table->values[at] = 0;
        table->count++;
    }
    return 0;
}

static void
table_drop(struct table *table, uint64_t key)
{
    size_t hole = place(table, key), at;

    if (key == 0 || table->keys[hole] != key)
        return;
    table->keys[hole] = 0;
    table->count--;
    /* what stands behind it, and may have been pushed there by it, is put in anew */
    for (at = (hole + 1) & table->mask; table->keys[at] != 0; at = (at + 1) & table->mask) {
        uint64_t moved = table->keys[at], value = table->values != NULL ? table->values[at] : 0;
        table->keys[at] = 0;
        size_t to = place(table, moved);
        table->keys[to] = moved;
        if (table->values != NULL)
            table->values[to] = value;
    }
}

/* -- requests ---------------------------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    struct table known;   /* files that may be opened by anybody */
    struct table watched; /* files that the reader may open: what Python is told of each such open */
    struct table listed;  /* directories that may be opened: until when */
    struct table open;    /* inodes that are open: how often */
    struct table handles; /* open files: their inodes */
    struct table ended;   /* open directories of Python, of which nothing is left to be read from some position on */
    uint64_t released[MOST_RELEASED]; /* those that were released here */
    size_t released_count;
    uint64_t next_handle;
    uint64_t answered;    /* opens of files */
    uint64_t answered_directories;
    uint32_t reader;      /* the thread whose program Python knows */
    int64_t reader_until; /* when it is to be asked again */
    uint64_t read[MOST_READ][2]; /* the watched files that it has opened, and what was noted of them */
    size_t read_count;
    int held;             /* changes that Python has yet to follow; counted by any thread */
    int paused;           /* changes that are being made */
    char *request;
    size_t waiting;       /* bytes of a request that libfuse is to take; 0: none */
    int between;          /* whether pyfuse3 has received a request from here */
    int between_entries;  /* whether it has put an entry into a listing from here */
    int names_only;       /* whether those that it puts into one go out without their inodes */
    uint64_t kept;        /* the handle of a directory that is being opened, if the kernel may keep what it lists of it */
} Opens;

static Opens *current;
typedef int receiver(void *session, struct buffer *buffer);
static receiver *receive;
int fuse_session_receive_buf(void *session, struct buffer *buffer);
typedef size_t adder(void *request, char *buffer, size_t size, const char *name, const void *entry, off_t position);
static adder *add_entry;
adder fuse_add_direntry_plus;
typedef int opener(void *request, const struct file_info *info);
static opener *reply_open;
opener fuse_reply_open;
static int own_memory; /* whether any buffer may have been allocated here */

/* Returns libfuse's function of a name, for a caller that was given the one of that name here. */
static void *
theirs(void *caller, const char *name, void *ours)
{
    Dl_info info;
    void *handle, *found;

    if (dladdr(caller, &info) == 0 || (handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)) == NULL)
        return NULL;
    /* what this object was linked with is searched, not what is there for all to see */
    found = dlsym(handle, name);
    dlclose(handle);
    return found == ours ? NULL : found;
}

int
fuse_session_receive_buf(void *session, struct buffer *buffer)
{
    size_t size;

    if (current != NULL)
        current->between = 1;
    if (current == NULL || current->waiting == 0) {
        if (own_memory) {
            /* libfuse may take more than was allocated here */
            free(buffer->memory);
            buffer->memory = NULL;
        }
        if (current != NULL)
            /* nobody has looked at what comes */
            table_clear(&current->listed);
        if (receive == NULL) {
            void *found = theirs(__builtin_return_address(0), "fuse_session_receive_buf", fuse_session_receive_buf);
            if ((receive = (receiver *)found) == NULL)
                return -ENOSYS;
        }
        return receive(session, buffer);
    }
    if (buffer->memory == NULL) {
        buffer->memory = malloc(REQUEST_BYTES);
        if (buffer->memory == NULL)
            return -ENOMEM;
        own_memory = 1;
    }
    size = current->waiting;
    current->waiting = 0;
    memcpy(buffer->memory, current->request, size);
    buffer->size = size;
    buffer->flags = 0;
    return (int)size;
}

size_t
fuse_add_direntry_plus(void *request, char *buffer, size_t size, const char *name, const void *entry, off_t position)
{
    size_t taken;

    if (add_entry == NULL) {
        void *found = theirs(__builtin_return_address(0), "fuse_add_direntry_plus", fuse_add_direntry_plus);
        if ((add_entry = (adder *)found) == NULL)
            return SIZE_MAX; /* more than there is room for */
    }
    taken = add_entry(request, buffer, size, name, entry, position);
    if (current != NULL) {
        current->between_entries = 1;
        if (current->names_only && buffer != NULL && taken <= size)
            /* the number of the file stays in the entry */
            ((struct fuse_direntplus *)buffer)->entry_out.nodeid = 0;
    }
    return taken;
}

int
fuse_reply_open(void *request, const struct file_info *info)
{
    struct file_info *answer = (struct file_info *)info; /* of pyfuse3, which is done with it */

    if (reply_open == NULL) {
        void *found = theirs(__builtin_return_address(0), "fuse_reply_open", fuse_reply_open);
        if ((reply_open = (opener *)found) == NULL)
            return -ENOSYS;
    }
    if (current != NULL && info->handle == current->kept)
        answer->cache_readdir = 1;
    return reply_open(request, info);
}

static int64_t
now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Opens an inode as the next handle: 0, or -1 if there is no memory. */
static int
open_one(Opens *self, uint64_t ino)
{
    if (table_put(&self->handles, self->next_handle) < 0)
        return -1;
    if (table_put(&self->open, ino) < 0) {
        table_drop(&self->handles, self->next_handle);
        return -1;
    }
    *table_get(&self->handles, self->next_handle) = ino;
    ++*table_get(&self->open, ino);
    return 0;
}

/* Closes an open handle, and returns its inode. */
static uint64_t
close_one(Opens *self, uint64_t handle)
{
    uint64_t ino = *table_get(&self->handles, handle);

    if (--*table_get(&self->open, ino) == 0)
        table_drop(&self->open, ino);
    table_drop(&self->handles, handle);
    return ino;
}

/* Says whether an inode may be opened here by a thread. */
static int
may_open(Opens *self, uint32_t opcode, uint64_t ino, uint32_t thread)
{
    if (self->paused > 0)
        return 0;
    if (opcode == FUSE_OPENDIR)
        return table_has(&self->listed, ino) && (uint64_t)now_ns() < *table_get(&self->listed, ino) &&
               __atomic_load_n(&self->held, __ATOMIC_ACQUIRE) == 0;
    if (table_has(&self->known, ino))
        return 1;
    return table_has(&self->watched, ino) && thread == self->reader && self->read_count < MOST_READ &&
           now_ns() < self->reader_until;
}

/* Forgets the directories if a request, which Python is to answer, may change what is in any. */
static void
leave(Opens *self, size_t size)
{
    const struct fuse_in_header *in = (const void *)self->request;

    if (self->listed.count == 0)
        return;
    if (size >= sizeof *in) {
        switch (in->opcode) {
        case FUSE_OPEN: {
            const struct fuse_open_in *asked = (const void *)(in + 1);
            if (size >= sizeof *in + sizeof *asked && (asked->flags & (O_ACCMODE | O_TRUNC)) == O_RDONLY)
                return;
            break;
        }
        case FUSE_LOOKUP: case FUSE_FORGET: case FUSE_BATCH_FORGET: case FUSE_GETATTR: case FUSE_READLINK:
        case FUSE_READ: case FUSE_STATFS: case FUSE_GETXATTR: case FUSE_LISTXATTR: case FUSE_ACCESS:
        case FUSE_OPENDIR: case FUSE_READDIR: case FUSE_READDIRPLUS: case FUSE_RELEASEDIR: case FUSE_INTERRUPT:
        case FUSE_FLUSH: case FUSE_RELEASE: /* what follows from them Python drops */
            return;
        }
    }
    table_clear(&self->listed);
}

/* Answers a request if that can be done here: 1 if it was, 0 if not. */
static int
answer(Opens *self, int fd, size_t size)
{
    const struct fuse_in_header *in = (const void *)self->request;
    const void *body = in + 1;
    struct {
        struct fuse_out_header header;
        struct fuse_open_out open;
    } out;

    if (size < sizeof *in || in->len != size)
        return 0;
    memset(&out, 0, sizeof out);
    out.header.len = sizeof out.header;
    out.header.unique = in->unique;
    switch (in->opcode) {
    case FUSE_OPEN:
    case FUSE_OPENDIR: {
        const struct fuse_open_in *asked = body;
        if (size < sizeof *in + sizeof *asked || (asked->flags & (O_ACCMODE | O_TRUNC)) != O_RDONLY)
            return 0;
        if (!may_open(self, in->opcode, in->nodeid, in->pid) || open_one(self, in->nodeid) < 0)
            return 0;
        out.header.len = sizeof out;
        out.open.fh = self->next_handle++;
        out.open.open_flags = FOPEN_KEEP_CACHE | (in->opcode == FUSE_OPEN ? FOPEN_NOFLUSH : FOPEN_CACHE_DIR);
        ++*(in->opcode == FUSE_OPEN ? &self->answered : &self->answered_directories);
        if (in->opcode == FUSE_OPEN && table_has(&self->watched, in->nodeid)) {
            self->read[self->read_count][0] = in->nodeid;
            self->read[self->read_count++][1] = *table_get(&self->watched, in->nodeid);
        }
        break;
    }
    case FUSE_READDIR:
    case FUSE_READDIRPLUS: {
        const struct fuse_read_in *asked = body;
        if (size < sizeof *in + sizeof *asked || !table_has(&self->ended, asked->fh) ||
            asked->offset != *table_get(&self->ended, asked->fh))
            return 0;
        break;
    }
    case FUSE_FLUSH: /* asked by kernels that do not know FOPEN_NOFLUSH */
    case FUSE_RELEASEDIR:
    case FUSE_RELEASE: {
        const uint64_t *handle = body; /* first in both */
        if (size < sizeof *in + sizeof *handle)
            return 0;
        if (in->opcode == FUSE_RELEASEDIR && table_has(&self->ended, *handle)) {
            table_drop(&self->ended, *handle);
            if (self->released_count == MOST_RELEASED)
                return 0;
            self->released[self->released_count++] = *handle;
            break;
        }
        if (!table_has(&self->handles, *handle))
            return 0;
        if (in->opcode != FUSE_FLUSH)
            close_one(self, *handle);
        break;
    }
    case FUSE_GETXATTR: {
        /* asked for each file by `ls -l` */
        const struct fuse_getxattr_in *asked = body;
        if (size < sizeof *in + sizeof *asked + sizeof ACCESS_LIST ||
            memcmp(asked + 1, ACCESS_LIST, sizeof ACCESS_LIST - 1) != 0)
            return 0;
        out.header.error = -EOPNOTSUPP;
        break;
    }
    default:
        return 0;
    }
    if (write(fd, &out, out.header.len) < 0 && out.open.fh != 0) {
        /* whoever asked is gone, and nothing will be released */
        close_one(self, out.open.fh);
        --*(in->opcode == FUSE_OPEN ? &self->answered : &self->answered_directories);
    }
    return 1;
}

enum { NOTHING, REQUEST, BUSY };

static int
take_turn(Opens *self, int fd, int64_t patience_ns)
{
    int64_t began = now_ns(), last = began, now;
    int shared = 0;

    for (;;) {
        ssize_t size = read(fd, self->request, REQUEST_BYTES);
        if (size > 0) {
            if (!answer(self, fd, (size_t)size)) {
                leave(self, (size_t)size);
                self->waiting = (size_t)size;
                return REQUEST;
            }
            last = now_ns();
            shared = 0;
            if (last - began > TURN_NS)
                return BUSY;
            continue;
        }
        if (size < 0 && errno == EINTR)
            return BUSY;
        /* ENOENT: a request that was taken back while it was read */
        if (size >= 0 || (errno != EAGAIN && errno != ENOENT))
            /* the end, or what libfuse knows better: it reads again */
            return REQUEST;
        now = now_ns();
        if (shared || now - last > patience_ns)
            return NOTHING;
        sched_yield();
        shared = now_ns() - now > SHARED_NS;
    }
}

/* -- for Python -------------------------------------------------------------------------------------------------- */

static PyObject *
opens_note(Opens *self, PyObject *argument)
{
    uint64_t ino = PyLong_AsUnsignedLongLong(argument);

    if (ino == (uint64_t)-1 && PyErr_Occurred())
        return NULL;
    /* without memory for it Python goes on to be asked */
    if (ino != 0)
        (void)table_put(&self->known, ino);
    Py_RETURN_NONE;
}

static PyObject *
opens_note_directory(Opens *self, PyObject *arguments)
{
    unsigned long long ino;
    long long microseconds;

    if (!PyArg_ParseTuple(arguments, "KL", &ino, &microseconds))
        return NULL;
    if (ino != 0 && self->paused == 0 && table_put(&self->listed, ino) == 0)
        *table_get(&self->listed, ino) = (uint64_t)(now_ns() + microseconds * 1000);
    Py_RETURN_NONE;
}

static PyObject *
opens_watch(Opens *self, PyObject *arguments)
{
    unsigned long long ino, noted;

    if (!PyArg_ParseTuple(arguments, "KK", &ino, &noted))
        return NULL;
    if (ino != 0 && table_put(&self->watched, ino) == 0)
        *table_get(&self->watched, ino) = noted;
    Py_RETURN_NONE;
}

static PyObject *
opens_reading(Opens *self, PyObject *arguments)
{
    unsigned int thread;
    long long microseconds;
    PyObject *found;

    if (!PyArg_ParseTuple(arguments, "IL", &thread, &microseconds))
        return NULL;
    found = PyList_New((Py_ssize_t)self->read_count);
    if (found == NULL)
        return NULL;
    for (size_t at = 0; at < self->read_count; at++) {
        PyObject *one = Py_BuildValue("KK", (unsigned long long)self->read[at][0], (unsigned long long)self->read[at][1]);
        if (one == NULL) {
            Py_DECREF(found);
            return NULL;
        }
        PyList_SET_ITEM(found, (Py_ssize_t)at, one);
    }
    self->read_count = 0;
    self->reader = thread;
    self->reader_until = thread != 0 ? now_ns() + microseconds * 1000 : 0;
    return found;
}

static PyObject *
opens_hold(Opens *self, PyObject *argument)
{
    long changes = PyLong_AsLong(argument);

    if (changes == -1 && PyErr_Occurred())
        return NULL;
    __atomic_add_fetch(&self->held, (int)changes, __ATOMIC_ACQ_REL);
    Py_RETURN_NONE;
}

static PyObject *
opens_pause(Opens *self, PyObject *argument)
{
    long changes = PyLong_AsLong(argument);

    if (changes == -1 && PyErr_Occurred())
        return NULL;
    self->paused += (int)changes;
    Py_RETURN_NONE;
}

static PyObject *
opens_drop(Opens *self, PyObject *argument)
{
    uint64_t ino = PyLong_AsUnsignedLongLong(argument);

    if (ino == (uint64_t)-1 && PyErr_Occurred())
        return NULL;
    table_drop(&self->known, ino);
    table_drop(&self->watched, ino);
    table_drop(&self->listed, ino);
    Py_RETURN_NONE;
}

static PyObject *
opens_clear(Opens *self, PyObject *Py_UNUSED(ignored))
{
    table_clear(&self->known);
    table_clear(&self->watched);
    table_clear(&self->listed);
    Py_RETURN_NONE;
}

static PyObject *
opens_is_open(Opens *self, PyObject *argument)
{
    uint64_t ino = PyLong_AsUnsignedLongLong(argument);

    if (ino == (uint64_t)-1 && PyErr_Occurred())
        return NULL;
    return PyBool_FromLong(table_has(&self->open, ino));
}

static PyObject *
opens_adopt(Opens *self, PyObject *argument)
{
    uint64_t handle = PyLong_AsUnsignedLongLong(argument);

    if (handle == (uint64_t)-1 && PyErr_Occurred())
        return NULL;
    if (!table_has(&self->handles, handle)) {
        PyErr_SetObject(PyExc_KeyError, argument);
        return NULL;
    }
    return PyLong_FromUnsignedLongLong(close_one(self, handle));
}

static PyObject *
opens_names_only(Opens *self, PyObject *argument)
{
    int wanted = PyObject_IsTrue(argument);

    if (wanted < 0)
        return NULL;
    self->names_only = wanted && self->between_entries;
    return PyBool_FromLong(self->names_only);
}

static PyObject *
opens_keep_listing(Opens *self, PyObject *argument)
{
    uint64_t handle = PyLong_AsUnsignedLongLong(argument);

    if (handle == (uint64_t)-1 && PyErr_Occurred())
        return NULL;
    self->kept = handle;
    Py_RETURN_NONE;
}

static PyObject *
opens_ended(Opens *self, PyObject *arguments)
{
    unsigned long long handle, position;

    if (!PyArg_ParseTuple(arguments, "KK", &handle, &position))
        return NULL;
    if (handle != 0 && table_put(&self->ended, handle) == 0)
        *table_get(&self->ended, handle) = position;
    Py_RETURN_NONE;
}

static PyObject *
opens_released(Opens *self, PyObject *Py_UNUSED(ignored))
{
    PyObject *found = PyList_New((Py_ssize_t)self->released_count);

    if (found == NULL)
        return NULL;
    for (size_t at = 0; at < self->released_count; at++) {
        PyObject *one = PyLong_FromUnsignedLongLong(self->released[at]);
        if (one == NULL) {
            Py_DECREF(found);
            return NULL;
        }
        PyList_SET_ITEM(found, (Py_ssize_t)at, one);
    }
    self->released_count = 0;
    return found;
}

static PyObject *
opens_turn(Opens *self, PyObject *arguments)
{
    int fd, result;
    long long microseconds;

    if (!PyArg_ParseTuple(arguments, "iL", &fd, &microseconds))
        return NULL;
    if (self->waiting != 0)
        return PyLong_FromLong(REQUEST);
    Py_BEGIN_ALLOW_THREADS
    result = take_turn(self, fd, microseconds * 1000);
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(result);
}

static PyObject *
opens_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {NULL};
    Opens *self;

    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "", names))
        return NULL;
    self = (Opens *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->next_handle = FIRST_HANDLE;
    self->request = malloc(REQUEST_BYTES);
    if (self->request == NULL || table_make(&self->known, 1 << 10, 0) < 0 ||
        table_make(&self->watched, 1 << 8, 1) < 0 || table_make(&self->listed, 1 << 8, 1) < 0 ||
        table_make(&self->ended, 1 << 4, 1) < 0 || table_make(&self->open, 1 << 4, 1) < 0 || table_make(&self->handles, 1 << 4, 1) < 0) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    current = self;
    return (PyObject *)self;
}

static void
opens_dealloc(Opens *self)
{
    if (current == self)
        current = NULL;
    table_free(&self->known);
    table_free(&self->watched);
    table_free(&self->listed);
    table_free(&self->ended);
    table_free(&self->open);
    table_free(&self->handles);
    free(self->request);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *
opens_answered(Opens *self, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLongLong(self->answered);
}

static PyObject *
opens_answered_directories(Opens *self, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLongLong(self->answered_directories);
}

static PyObject *
opens_is_between(Opens *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(self->between);
}

static PyMethodDef methods[] = {
    {"note", (PyCFunction)opens_note, METH_O, NULL},
    {"note_directory", (PyCFunction)opens_note_directory, METH_VARARGS, NULL},
    {"watch", (PyCFunction)opens_watch, METH_VARARGS, NULL},
    {"reading", (PyCFunction)opens_reading, METH_VARARGS, NULL},
    {"hold", (PyCFunction)opens_hold, METH_O, NULL},
    {"pause", (PyCFunction)opens_pause, METH_O, NULL},
    {"drop", (PyCFunction)opens_drop, METH_O, NULL},
    {"clear", (PyCFunction)opens_clear, METH_NOARGS, NULL},
    {"is_open", (PyCFunction)opens_is_open, METH_O, NULL},
    {"adopt", (PyCFunction)opens_adopt, METH_O, NULL},
    {"names_only", (PyCFunction)opens_names_only, METH_O, NULL},
    {"keep_listing", (PyCFunction)opens_keep_listing, METH_O, NULL},
    {"ended", (PyCFunction)opens_ended, METH_VARARGS, NULL},
    {"released", (PyCFunction)opens_released, METH_NOARGS, NULL},
    {"turn", (PyCFunction)opens_turn, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"answered", (getter)opens_answered, NULL, NULL, NULL},
    {"answered_directories", (getter)opens_answered_directories, NULL, NULL, NULL},
    {"is_between", (getter)opens_is_between, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fusefs._opens.Opens",
    .tp_basicsize = sizeof(Opens),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = opens_new,
    .tp_dealloc = (destructor)opens_dealloc,
    .tp_methods = methods,
    .tp_getset = attributes,
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_opens", .m_size = -1};

PyMODINIT_FUNC
PyInit__opens(void)
{
    PyObject *made;

    if (PyType_Ready(&type) < 0 || (made = PyModule_Create(&module)) == NULL)
        return NULL;
    Py_INCREF(&type);
    if (PyModule_AddObject(made, "Opens", (PyObject *)&type) < 0) {
        Py_DECREF(&type);
        Py_DECREF(made);
        return NULL;
    }
    if (PyModule_AddIntMacro(made, INTERFACE) < 0) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}
