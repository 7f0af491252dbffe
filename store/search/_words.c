/* Which blocks have which words: the inner loops of store.search.collecting, which says what they are for.
 *
 * A word's bytes lie in one arena, the blocks that have it in one list of pairs (word, block), in the order in which
 * they came, and so the marks of each group of its blocks, but for the last group's, which the word has at hand. At the
 * end words are sorted, and the pairs counted into the order of the words.
 */

#define PY_SSIZE_T_CLEAN
#define _GNU_SOURCE
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST 64
#define MOST_BLOCKS 65536
#define FIRST_SLOTS 4096
#define GROUP 16
#define NONE SIZE_MAX

struct word {
    uint64_t hash;
    size_t at; /* where its bytes begin in the arena */
    uint32_t size;
    uint32_t seen;  /* the last block that has it, from 1 */
    uint32_t count; /* of blocks */
    uint32_t marks; /* of the last group of blocks */
};

struct pair {
    uint32_t word;
    uint16_t block;
};

struct group {
    uint32_t word;
    uint32_t marks;
};

typedef struct {
    PyObject_HEAD
    struct word *words;
    size_t count, room;
    uint32_t *slots; /* of each hash, the number of its word from 1, 0 for none */
    size_t mask;
    char *arena;
    size_t used, size;
    struct pair *pairs;
    size_t pair_count, pair_room;
    struct group *groups;
    size_t group_count, group_room;
    uint32_t block; /* the one at hand, from 1 */
} Collected;

/* Of each byte: 0 between words, the byte in lower case in them, 128 and more for others than ASCII. */
static unsigned char in_words[256];

static int
grown(void **memory, size_t *room, size_t wanted, size_t each)
{
    size_t more = *room ? *room : 1024;
    void *larger;

    if (wanted <= *room)
        return 1;
    while (more < wanted)
        more *= 2;
    if ((larger = realloc(*memory, more * each)) == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    *memory = larger;
    *room = more;
    return 1;
}

static uint64_t
hash_of(const unsigned char *bytes, size_t size)
{
    uint64_t hash = 0xCBF29CE484222325u, part;

    for (; size >= 8; bytes += 8, size -= 8) {
        memcpy(&part, bytes, 8);
        hash = (hash ^ part) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    for (part = size; size > 0; size--)
        part = part << 8 | *bytes++;
    hash = (hash ^ part) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}

static int
more_slots(Collected *self)
{
    size_t mask = self->mask ? 2 * self->mask + 1 : FIRST_SLOTS - 1, number, at;
    uint32_t *slots = calloc(mask + 1, sizeof(*slots));

    if (slots == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    for (number = 0; number < self->count; number++) {
        for (at = self->words[number].hash & mask; slots[at] != 0; at = (at + 1) & mask)
            ;
        slots[at] = (uint32_t)number + 1;
    }
    free(self->slots);
    self->slots = slots;
    self->mask = mask;
    return 1;
}

/* Notes that the block at hand has a word; returns its number, NONE without memory. */
static size_t
note(Collected *self, const unsigned char *bytes, size_t size)
{
    uint64_t hash = hash_of(bytes, size);
    struct word *word;
    size_t at;

    if (2 * self->count >= self->mask && !more_slots(self))
        return NONE;
    for (at = hash & self->mask;; at = (at + 1) & self->mask) {
        if (self->slots[at] == 0)
            break;
        word = &self->words[self->slots[at] - 1];
        if (word->hash == hash && word->size == size && memcmp(self->arena + word->at, bytes, size) == 0)
            break;
    }
    if (self->slots[at] == 0) {
        if (!grown((void **)&self->words, &self->room, self->count + 1, sizeof(*self->words)) ||
            !grown((void **)&self->arena, &self->size, self->used + size, 1))
            return NONE;
        memcpy(self->arena + self->used, bytes, size);
        self->words[self->count] = (struct word){hash, self->used, (uint32_t)size, 0, 0, 0};
        self->used += size;
        self->slots[at] = (uint32_t)++self->count;
    }
    word = &self->words[self->slots[at] - 1];
    at = (size_t)(word - self->words);
    if (word->seen == self->block)
        return at;
    if (!grown((void **)&self->pairs, &self->pair_room, self->pair_count + 1, sizeof(*self->pairs)))
        return NONE;
    if (word->count > 0 && word->count % GROUP == 0) {
        if (!grown((void **)&self->groups, &self->group_room, self->group_count + 1, sizeof(*self->groups)))
            return NONE;
        self->groups[self->group_count++] = (struct group){(uint32_t)at, word->marks};
        word->marks = 0;
    }
    word->seen = self->block;
    word->count++;
    self->pairs[self->pair_count++] = (struct pair){(uint32_t)at, (uint16_t)(self->block - 1)};
    return at;
}

/* Adds a run that is no plain word to a set, in lower case. */
static int
put_run(PyObject *runs, const unsigned char *bytes, size_t size)
{
    PyObject *run = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    unsigned char *copy;
    size_t at;
    int failed;

    if (run == NULL)
        return 0;
    copy = (unsigned char *)PyBytes_AS_STRING(run);
    for (at = 0; at < size; at++)
        copy[at] = in_words[bytes[at]];
    failed = PySet_Add(runs, run);
    Py_DECREF(run);
    return failed == 0;
}

static PyObject *
add(PyObject *object, PyObject *argument)
{
    Collected *self = (Collected *)object;
    unsigned char word[LONGEST], here;
    const unsigned char *at, *end, *start;
    Py_buffer text;
    PyObject *runs;
    size_t size, last = NONE, number;
    int plain, done;

    if (PyObject_GetBuffer(argument, &text, PyBUF_SIMPLE) < 0)
        return NULL;
    if ((runs = PySet_New(NULL)) == NULL) {
        PyBuffer_Release(&text);
        return NULL;
    }
    at = text.buf;
    end = at + text.len;
    while (at < end) {
        if (in_words[*at] == 0) {
            at++;
            continue;
        }
        start = at;
        for (plain = 1; at < end && (here = in_words[*at]) != 0; at++) {
            size = (size_t)(at - start);
            if (here >= 128 || size >= LONGEST)
                plain = 0;
            else
                word[size] = here;
        }
        if (plain) {
            number = note(self, word, (size_t)(at - start));
            if ((done = number != NONE) && last != NONE)
                self->words[last].marks |= 1u << (self->words[number].hash >> 59);
            last = number;
        } else {
            done = put_run(runs, start, (size_t)(at - start));
            last = NONE;
        }
        if (!done) {
            Py_CLEAR(runs);
            break;
        }
    }
    PyBuffer_Release(&text);
    return runs;
}

static PyObject *
put(PyObject *object, PyObject *argument)
{
    Collected *self = (Collected *)object;
    PyObject *words = PyObject_GetIter(argument), *word;

    if (words == NULL)
        return NULL;
    while ((word = PyIter_Next(words)) != NULL) {
        char *bytes;
        Py_ssize_t size;
        size_t number = NONE;
        if (PyBytes_AsStringAndSize(word, &bytes, &size) == 0)
            number = note(self, (unsigned char *)bytes, (size_t)size);
        Py_DECREF(word);
        if (number == NONE)
            break;
        self->words[number].marks = UINT32_MAX;
    }
    Py_DECREF(words);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
next_block(PyObject *object, PyObject *Py_UNUSED(nothing))
{
    Collected *self = (Collected *)object;

    if (self->block >= MOST_BLOCKS) {
        PyErr_SetString(PyExc_OverflowError, "a segment has no room for another block");
        return NULL;
    }
    self->block++;
    Py_RETURN_NONE;
}

static int
in_order(const void *one, const void *other, void *collected)
{
    const Collected *self = collected;
    const struct word *first = &self->words[*(const uint32_t *)one], *second = &self->words[*(const uint32_t *)other];
    uint32_t shorter = first->size < second->size ? first->size : second->size;
    int found = memcmp(self->arena + first->at, self->arena + second->at, shorter);

    return found != 0 ? found : (first->size > second->size) - (first->size < second->size);
}

/* Returns the words, in the order of their numbers, each between two newlines. */
static PyObject *
joined(const Collected *self, const uint32_t *order)
{
    PyObject *all = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(self->used + self->count + 1));
    char *to;
    size_t at;

    if (all == NULL)
        return NULL;
    to = PyBytes_AS_STRING(all);
    *to++ = '\n';
    for (at = 0; at < self->count; at++) {
        const struct word *word = &self->words[order[at]];
        memcpy(to, self->arena + word->at, word->size);
        to += word->size;
        *to++ = '\n';
    }
    return all;
}

static size_t
groups_of(const struct word *word)
{
    return (word->count + GROUP - 1) / GROUP;
}

/* Returns the data of a part: of some words, whose blocks and marks lie from each one's number in starts on. */
static PyObject *
part_of(
    const Collected *self, const uint32_t *order, size_t count, const size_t *starts, const uint16_t *blocks,
    const size_t *first, const uint32_t *marks)
{
    size_t total = 0, groups = 0, at, place, end;
    unsigned char *low, *high;
    PyObject *part;

    for (at = 0; at < count; at++) {
        total += self->words[order[at]].count;
        groups += groups_of(&self->words[order[at]]);
    }
    part = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(2 + 2 * count + 2 * total + 4 * groups));
    if (part == NULL)
        return NULL;
    low = (unsigned char *)PyBytes_AS_STRING(part);
    *low++ = (unsigned char)count;
    *low++ = (unsigned char)(count >> 8);
    for (high = low + count, at = 0; at < count; at++) {
        uint32_t less = self->words[order[at]].count - 1;
        *low++ = (unsigned char)less;
        *high++ = (unsigned char)(less >> 8);
    }
    for (low = high, high = low + total, at = 0; at < count; at++) {
        uint16_t before = 0;
        place = starts[order[at]];
        for (end = place + self->words[order[at]].count; place < end; place++) {
            uint16_t step = (uint16_t)(blocks[place] - before);
            *low++ = (unsigned char)step;
            *high++ = (unsigned char)(step >> 8);
            before = blocks[place];
        }
    }
    for (low = high, at = 0; at < count; at++) {
        place = first[order[at]];
        for (end = place + groups_of(&self->words[order[at]]); place < end; place++)
            for (int shift = 0; shift < 32; shift += 8)
                *low++ = (unsigned char)(marks[place] >> shift);
    }
    return part;
}

static PyObject *
end(PyObject *object, PyObject *argument)
{
    Collected *self = (Collected *)object;
    size_t most = PyLong_AsSize_t(argument), at, total = 0, group_total = 0;
    uint32_t *order = NULL, *marks = NULL;
    size_t *starts = NULL, *first = NULL;
    uint16_t *blocks = NULL;
    PyObject *parts = NULL, *words = NULL, *part;

    if (PyErr_Occurred() || most == 0 || most > UINT16_MAX)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "%zu words are no part", most);
    order = malloc((self->count + 1) * sizeof(*order));
    starts = malloc((self->count + 1) * sizeof(*starts));
    blocks = malloc((self->pair_count + 1) * sizeof(*blocks));
    first = malloc((self->count + 1) * sizeof(*first));
    marks = malloc((self->group_count + self->count + 1) * sizeof(*marks));
    if (order == NULL || starts == NULL || blocks == NULL || first == NULL || marks == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    for (at = 0; at < self->count; at++) {
        order[at] = (uint32_t)at;
        starts[at] = total;
        total += self->words[at].count;
        first[at] = group_total;
        group_total += groups_of(&self->words[at]);
    }
    Py_BEGIN_ALLOW_THREADS
    qsort_r(order, self->count, sizeof(*order), in_order, self);
    for (at = 0; at < self->pair_count; at++)
        blocks[starts[self->pairs[at].word]++] = self->pairs[at].block;
    for (at = 0; at < self->group_count; at++)
        marks[first[self->groups[at].word]++] = self->groups[at].marks;
    for (at = 0; at < self->count; at++) {
        starts[at] -= self->words[at].count;
        marks[first[at]] = self->words[at].marks;
        first[at] -= groups_of(&self->words[at]) - 1;
    }
    Py_END_ALLOW_THREADS
    if ((words = joined(self, order)) == NULL || (parts = PyList_New(0)) == NULL)
        goto done;
    for (at = 0; at < self->count; at += most) {
        size_t count = self->count - at < most ? self->count - at : most;
        part = part_of(self, order + at, count, starts, blocks, first, marks);
        if (part == NULL || PyList_Append(parts, part) < 0) {
            Py_XDECREF(part);
            Py_CLEAR(parts);
            break;
        }
        Py_DECREF(part);
    }
done:
    free(order);
    free(starts);
    free(blocks);
    free(first);
    free(marks);
    if (parts == NULL) {
        Py_XDECREF(words);
        return NULL;
    }
    return Py_BuildValue("(NN)", words, parts);
}

static PyObject *
new_collected(PyTypeObject *type, PyObject *Py_UNUSED(arguments), PyObject *Py_UNUSED(named))
{
    Collected *self = (Collected *)type->tp_alloc(type, 0);

    if (self != NULL)
        self->block = 1;
    return (PyObject *)self;
}

static void
freed(PyObject *object)
{
    Collected *self = (Collected *)object;

    free(self->words);
    free(self->slots);
    free(self->arena);
    free(self->pairs);
    free(self->groups);
    Py_TYPE(object)->tp_free(object);
}

static PyMethodDef methods[] = {
    {"add", add, METH_O, "Add a text in UTF-8 to the block at hand; return its runs that are no plain words."},
    {"put", put, METH_O, "Add words to the block at hand."},
    {"next", next_block, METH_NOARGS, "End the block at hand."},
    {"end", end, METH_O, "Return the words, and the data of parts of so many of them."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject collected = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "store.search._words.Collected",
    .tp_basicsize = sizeof(Collected),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "As store.search.collecting.Collected.",
    .tp_new = new_collected,
    .tp_dealloc = freed,
    .tp_methods = methods,
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "store.search._words", .m_doc = "The words of blocks, collected.", .m_size = -1,
};

PyMODINIT_FUNC
PyInit__words(void)
{
    PyObject *made;
    int byte;

    for (byte = 0; byte < 256; byte++)
        in_words[byte] = (unsigned char)(byte >= 128 || (byte >= '0' && byte <= '9') || byte == '_' ||
                                                 (byte >= 'a' && byte <= 'z')
                                             ? byte
                                         : byte >= 'A' && byte <= 'Z' ? byte + 32
                                                                      : 0);
    if (PyType_Ready(&collected) < 0 || (made = PyModule_Create(&module)) == NULL)
        return NULL;
    if (PyModule_AddObjectRef(made, "Collected", (PyObject *)&collected) < 0 ||
        PyModule_AddIntConstant(made, "GROUP", GROUP) < 0)
        Py_CLEAR(made);
    return made;
}
