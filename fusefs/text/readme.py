"""The text of ``README.md`` at the root of a mount."""

README = """\
# Conversations, as files

This is a mounted convfs store: conversations with AI tools as plain text, one directory each. People and programs can
read it with `ls`, `cat`, `grep` and `cp`, and change events with any editor. Every change makes a version, and earlier
states stay in `.versions/`: nothing you do here loses a conversation.

## What is where

    conversations/PROJECT/NAME/     one conversation; NAME is like 2026-03-05-fix-the-login-bug
        events/                     one file per event, in order: 00007-result-fs_read_file.md
        events.json                 every record as JSON, each content replaced by {"$blob": HASH, "size": BYTES}
        resources/                  attachments and files that tools returned, at paths made from their URIs
        metadata.json               title, labels, times, sizes, source
        forks/                      links to the conversations that branched off this one
        artifacts/0.bash.log        full outputs of tools; agents/0-Explore.md has those of agents
        subagents/NAME/             conversations of subagents that it started; their transcripts: transcripts/.../NAME/
    transcripts/PROJECT/NAME.md     the same conversation as one Markdown file
    html/index.html                 a list of all conversations for a browser; it leads to html/PROJECT/NAME.html
    by-date/2026/03/05/             links to the conversations that began on that day (UTC)
    by-label/LABEL/                 links to the conversations with that label
    by-branch/ by-model/ by-tool/   the same by branch of a repository, by model, and by tool
    recent/                         links to the most recently changed conversations
    search/QUERY/                   links to the events that match a query, and hits.txt with the matching lines
    import/                         imports session files, or directories of them, that are copied into it

## Finding something

- `cat 'search/connection refused/hits.txt'` prints the lines of every event that has both words, and
  `ls 'search/connection refused/'` lists links to these events, best first. This uses an index, so it is the fast way.
  Words also match inside words; without capitals, they match any case. You can combine `"exact phrase"`,
  `%2Fregular expression%2F` (a slash is `%2F` in a name), `-without`, `project:`, `role:user`, `tool:Bash`, `label:`,
  `uri:main.rs`, `after:2026-03-01` and `before:7` (days ago).
- Or run `grep -rn 'connection refused' transcripts/`: it holds all but system prompts and the like, once. The nearest
  `## 7 · …` heading above a hit has the event's number; read the event with
  `cat conversations/PROJECT/NAME/events/00007-*`.
- `grep -rl PATTERN conversations/*/*/events/` finds the event files. Search one of the trees: each repeats the other.
- `ls -t recent/` shows what was worked on last.
- `ls by-resource/home/me/project/main.rs/` lists the events that hold that file. For its content, wherever it is:
  `getfattr --only-values -n user.convfs.held_by conversations/PROJECT/NAME/resources/home/me/project/main.rs`.

## Event files

A head of `key: value` lines between two `---` lines, then the content. `type` is one of system, user, assistant,
reasoning, tool_call, tool_result, question, answer, config, summary, note. A single text stands as it is. Several
contents are fenced. Each fence opens with a line like

    ````block resource file:///project/src/main.rs text/x-rust

and closes with as many backticks alone on a line. Images and other binary contents are links into `../resources/`.
Numbers never change. A number missing in `events/` is bookkeeping of the tool that wrote the session, in `.records/`.

A path in `resources/` has the latest content that the conversation saw there; an earlier one has its event's number
before the extension: `src/main@00012.rs`.

## Changing something

- Edit an event's file with any editor, or `sed -i`: texts may change, the head may not. Each save makes one version.
- A transcript can be edited, too: texts, the title, sections taken out; a new one begins with `## user`. One save is
  one version.
- A save that is refused fails with EINVAL and is kept beside the event as `NAME.draft`; `.convfs/errors/` tells the
  wrong line and the reason.
- `rm events/00007-*` deletes an event; the others keep their numbers. To restore it:
  `cp .versions/…/events/00007-* events/`.
- Change `events.json` in any way: one save, one version. In place of `{"$blob": …}`, write `{"text": "…"}`. Elements
  keep their `"$event"`, new ones have none, missing ones are deleted.
- Saving a file in `resources/` changes the event that holds it.
- `echo 'One thing more.' > events/user.md` (or `assistant.md`) appends an event, which is listed under its number.
- `mkdir forks/NAME` forks the conversation at its end, `mkdir forks/NAME@00007` behind event 7; the fork is a separate
  conversation beside it. `mkdir conversations/PROJECT/NAME` begins an empty conversation, `mv` renames one.
- `rm -r conversations/PROJECT/NAME` moves it to `.convfs/trash/`; `mv` it from there to get it back.
- `metadata.json` takes another `title`, other `labels`, `pinned` (always in `recent/`) and `archived` (never there).
- `mkdir by-label/LABEL` and `ln -s ../../conversations/PROJECT/NAME by-label/LABEL/` label a conversation; `rm` of the
  link removes the label. So do `setfattr -n user.convfs.label.LABEL conversations/PROJECT/NAME`, and `-x`.
- `make 2>&1 | tee artifacts/make` keeps an output of any length under the next number, `artifacts/0.make.log`.
- `cp session.jsonl import/` imports a session of any known tool after half a second of quiet;
  `import/session.jsonl.report.txt` then has the outcome.
- Files with other names (swap files, backups, notes) stay as they are and belong to no conversation.

## Unlisted

Programs that walk directories do not find these. Open them by name.

    conversations/PROJECT/NAME/.versions/     every earlier state of the conversation, as a directory
    conversations/PROJECT/NAME/.records/      every record, bookkeeping too, in the tool's own JSON
    conversations/PROJECT/NAME/context.json   the messages to send to a model, nothing twice
    by-resource/home/me/project/main.rs/      links to the conversations and the events that hold this file, or URL
    conversations/PROJECT/NAME/family.svg     its forks and versions as a graph
    .convfs/stats.json stats.svg              what is stored and saved, and what models' answers took and cost
    .convfs/settings.toml                     the settings
    .convfs/errors/                           what went wrong, and why
    .convfs/log                               what the mount has done
    .convfs/trash/                            removed conversations
    .convfs/native/TOOL/                      the tools' own session files, byte for byte; writable
    .convfs/blobs/HASH                        any content by the BLAKE3 of its bytes, 64 hex digits
    conversations/PROJECT/NAME/resources/…@00012.rs    what event 12 held, whether it is listed or not
"""
