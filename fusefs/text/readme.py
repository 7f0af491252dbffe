"""The text of ``README.md`` at the root of a mount."""

README = """\
# Conversations, as files

This is a mounted convfs store: conversations with AI tools, one directory each, made of plain text. Whoever finds
it, person or program, can use `ls`, `cat`, `grep` and `cp` on it, and change events with any editor. Every change
makes a version, and what was before stays in `.versions/`: nothing that you do here loses a conversation.

## What is where

    conversations/PROJECT/NAME/     one conversation; NAME is like 2026-03-05-fix-the-login-bug
        events/                     one file for each event, in order: 00007-result-fs_read_file.md
        events.json                 every record as JSON, each content replaced by {"$blob": HASH, "size": BYTES}
        resources/                  attachments and files that tools returned, at paths made from their URIs
        metadata.json               title, labels, times, sizes, where it came from
        forks/                      links to the conversations that branched off this one
        artifacts/0.bash.log        full outputs of tools; agents/0-Explore.md those of agents
    transcripts/PROJECT/NAME.md     the same conversation as one Markdown file
    by-date/2026/03/05/             links to the conversations that began on that day (UTC)
    by-label/LABEL/                 links to the conversations that have a label
    recent/                         links to the conversations that changed last
    search/QUERY/                   links to the events that match a query, and hits.txt with the lines that do
    import/                         copy session files, or directories of them, into it: they are imported

## How to find something

- `cat 'search/connection refused/hits.txt'` says which lines of which events have both words, and
  `ls 'search/connection refused/'` links to these events, best first. What is searched for stands in an index, so this
  is the fast way. Words match within words, without capitals whatever their case; `"exact phrase"`,
  `%2Fregular expression%2F` (a slash is `%2F` in a name), `-without`, `project:`, `role:user`, `tool:Bash`, `label:`,
  `uri:main.rs`, `after:2026-03-01`, `before:7` (days ago) can be combined.
- Or search in `transcripts/`, it holds every text once:
  `grep -rn 'connection refused' transcripts/`. The nearest `## 7 · …` heading above a hit is the event's number.
- Then read the event: `cat conversations/PROJECT/NAME/events/00007-*`.
- `grep -rl PATTERN conversations/*/*/events/` gives the event files themselves. Do not search both trees: they hold
  the same text.
- What was worked on last: `ls -t recent/`.
- Which events hold a file of a tool: `ls by-resource/home/me/project/main.rs/`, or, for its content in whatever place,
  `getfattr --only-values -n user.convfs.held_by conversations/PROJECT/NAME/resources/home/me/project/main.rs`.

## Event files

A head of `key: value` lines between two lines `---`, then the content. `type` is one of system, user, assistant,
reasoning, tool_call, tool_result, question, answer, config, summary, note. A single text stands as it is. Several
contents stand in fences, each opened by a line like

    ````block resource file:///project/src/main.rs text/x-rust

and closed by as many backticks alone on a line. An image or other binary content is a link into `../resources/`.
Numbers never change. A number that is missing in `events/` is bookkeeping of the tool that wrote the session; it is
in `.records/`.

In `resources/`, a path has the latest content that the conversation saw under it; an earlier one has the number of
its event before the extension: `src/main@00012.rs`.

## How to change something

- Edit the file of an event with any editor, or `sed -i`: texts may change, the head stays as it is. One save makes
  one version of the conversation.
- What cannot be saved is refused with EINVAL, and kept beside the event as `NAME.draft`; `.convfs/errors/` says
  which line is wrong, and why.
- `rm events/00007-*` deletes an event. The others keep their numbers. A file with its number brings it back:
  `cp .versions/…/events/00007-* events/`.
- `events.json` may be changed in any way and saved: one version. In the place of `{"$blob": …}` write `{"text": "…"}`.
  Elements keep their `"$event"`, new ones have none, those that are missing are deleted.
- A file in `resources/` can be saved, too: the event that holds it changes.
- `echo 'One thing more.' > events/user.md` (or `assistant.md`) appends an event. It is listed under its number.
- `mkdir forks/NAME` forks the conversation at its end, `mkdir forks/NAME@00007` behind event 7; the fork is a
  conversation of its own beside it. `mkdir conversations/PROJECT/NAME` begins an empty one, `mv` renames one.
- `rm -r conversations/PROJECT/NAME` puts it into `.convfs/trash/`; `mv` it back from there to have it again.
- `metadata.json` takes another `title`, other `labels`, and `pinned` and `archived`: pinned conversations are always in
  `recent/`, archived ones never.
- `mkdir by-label/LABEL` and `ln -s ../../conversations/PROJECT/NAME by-label/LABEL/` label a conversation, `rm` of the
  link takes the label away. So do `setfattr -n user.convfs.label.LABEL conversations/PROJECT/NAME`, and `-x`.
- `make 2>&1 | tee artifacts/make` keeps an output of any length under the next number, `artifacts/0.make.log`.
- `cp session.jsonl import/` imports a session, of any tool that is known, after half a second of quiet.
  `import/session.jsonl.report.txt` then says what became of it.
- Files with other names stay what they are, and are of no conversation: swap files, backups, notes.

## What is there but not listed

Programs that walk directories do not meet these; name them to enter them.

    conversations/PROJECT/NAME/.versions/     every state that the conversation has been in, a directory each
    conversations/PROJECT/NAME/.records/      every record, bookkeeping too, in the tool's own JSON
    conversations/PROJECT/NAME/context.json   what a model should be sent of it: messages, nothing twice
    by-resource/home/me/project/main.rs/      links to the conversations and the events that hold this file, or URL
    conversations/PROJECT/NAME/family.svg     its forks and versions as a graph
    .convfs/stats.json stats.svg              what is held, saved, and what answers of models took and cost
    .convfs/settings.toml                     its settings
    .convfs/errors/                           what went wrong, and why
    .convfs/log                               what the mount has done
    .convfs/trash/                            conversations that were removed
    .convfs/native/TOOL/                      the tools' own session files, byte for byte, to be read and written
    .convfs/blobs/HASH                        a long text, an image … by the BLAKE3 of its bytes, 64 hex digits
    conversations/PROJECT/NAME/resources/…@00012.rs    what event 12 held, whether it is listed or not
"""
