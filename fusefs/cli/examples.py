"""Examples of each command, for its help: something people want, and how they say it. The tests run them.

They are about the demo conversations, mounted at ``~/conversations``.
"""

EXAMPLES: dict[str, list[tuple[str, str]]] = {
    "ls": [
        ("What have I talked about lately?", "convfs ls"),
        ("And in the webshop?", "convfs ls webshop"),
        ("The same for a program.", "convfs ls --json"),
    ],
    "show": [
        ("Let me read that talk about books.", "convfs show 'reading list'"),
        ("How did the last one end?", "convfs show @latest | tail -n 20"),
        ("The one I am standing in.", "cd ~/conversations/conversations/webshop/2026-03-05-* && convfs show ."),
        ("What would I commit?", "convfs show --files 'login bug' --format jp"),
    ],
    "cat": [
        ("What did that tool print, all of it?", "convfs cat artifact://0 --in 'login bug'"),
        ("Only ten lines of it.", "convfs cat artifact://0 --in 'login bug' --offset 100 --limit 10"),
    ],
    "open": [
        ("Let me read it in a browser.", "convfs open 'login bug'"),
        ("Where is that page?", "convfs open 'login bug' --print"),
    ],
    "browse": [
        ("Let me look through everything.", "convfs browse"),
        ("Starting from what is about logging in.", "convfs browse login"),
    ],
    "log": [("What was changed in it, and when?", "convfs log 'login bug'")],
    "diff": [
        ("What did my last edit change?", "convfs diff 'login bug@1' 'login bug'"),
        ("How do these two differ, in short?", "convfs diff --stat 1 2"),
    ],
    "stats": [
        ("What did it all cost?", "convfs stats"),
        ("Which model took most of it?", "convfs stats --by model"),
    ],
    "search": [
        ("Where did we talk about logging in?", "convfs search login"),
        ("What did it say about lower case? Not what files say.", "convfs search '\"lower case\"' role:assistant"),
        ("Which commands were run for the tests?", "convfs search tool:Bash pytest OR unittest"),
        ("What was said in the webshop since March?", "convfs search project:webshop after:2026-03 kind:user"),
        ("Everything in the talks that are about books.", "convfs search title:reading"),
    ],
    "grep": [
        ("Where is a function called login defined?", "convfs grep -n 'def login'"),
        ("With three lines around it, only in results.", "convfs grep -C 3 'def login' --include '*-result-*'"),
        ("Which tests passed?", "convfs grep -o '[0-9]+ passed' project:webshop"),
        ("In which files is either of two words?", "convfs grep -l -i -w -e solaris -e invincible"),
    ],
    "where": [
        ("Who read this file, and when?", "convfs where /home/demo/webshop/shop/login.py"),
        (
            "Where else is this text?",
            "convfs where ~/conversations/conversations/webshop/2026-03-05-*/events/00002-user.md",
        ),
    ],
    "blame": [("Who wrote these lines, and what for?", "convfs blame /home/demo/webshop/shop/login.py")],
    "mount": [
        ("Show my conversations as files.", "convfs mount ~/elsewhere"),
        ("And keep up with my tools.", "convfs mount --watch ~/elsewhere"),
    ],
    "umount": [("Take the files away again.", "convfs umount ~/conversations")],
    "install-service": [
        ("Mount them whenever I log in.", "convfs install-service"),
        ("Not any more.", "convfs install-service --remove"),
    ],
    "serve": [("Let my program append to conversations, without a mount.", "convfs serve")],
    "mcp": [("Let an agent look things up.", "convfs mcp")],
    "install-skill": [
        ("Tell my agents that there is convfs.", "convfs install-skill"),
        ("Not any more.", "convfs install-skill --remove"),
    ],
    "completion": [("Complete what I type, in this shell.", 'eval "$(convfs completion bash)"')],
    "doctor": [("Why does the mount not work?", "convfs doctor")],
    "import": [
        ("Bring in everything that my tools have.", "convfs import"),
        ("What would that be?", "convfs import --dry-run ~/old-laptop"),
        ("And what is on the old disk.", "convfs import ~/old-laptop"),
        (
            "This file is one of Claude Code's, whatever it is called.",
            "convfs import --format claude-code session.jsonl",
        ),
    ],
    "watch": [("Bring things in as they are said.", "convfs watch")],
    "export": [
        ("Give me back the files that I imported.", "convfs export 'login bug' -o ~/exported"),
        ("A page for a colleague to read.", "convfs export 'reading list' --format html -o ~/exported"),
        ("Go on with it in another tool.", "convfs export 'login bug' --format codex -o ~/exported"),
    ],
    "share": [
        ("A part of it, for others to read.", "convfs share 'login bug@7-9' -o ~/login.md"),
        ("What would be taken out?", "convfs share 'login bug' -o ~/login.html --dry-run"),
    ],
    "push": [
        ("What would go to another store?", "convfs push 'login bug' ~/other --dry-run"),
        ("Send it there.", "convfs push 'login bug' ~/other --yes"),
    ],
    "pull": [
        ("What has changed there?", "convfs pull ~/other --dry-run"),
        ("Bring it here.", "convfs pull ~/other"),
    ],
    "sync": [("Both ways, a whole project.", "convfs sync --project webshop ~/other --yes")],
    "formats": [
        ("Which tools are read?", "convfs formats"),
        ("What is in this file?", "convfs formats check ~/.claude/projects/*/*.jsonl | head -n 3"),
    ],
    "resume": [
        (
            "Go on from there in Claude Code; how would I do that?",
            "convfs resume 'reading list@7' --in claude-code --print",
        ),
    ],
    "context": [
        ("What would a model be sent now?", "convfs context 'reading list' --format openai"),
        ("Only the last two requests.", "convfs context 'login bug' --last 2 --json"),
    ],
    "fork": [
        ("Try it another way from there.", "convfs fork 'login bug@8' another-way"),
        ("A copy to play with.", "convfs fork 'reading list' a-copy"),
    ],
    "restore": [("Undo my edits.", "convfs restore webshop/2026-03-05 1")],
    "redact": [
        ("Is there a password in any of it?", "convfs redact --secrets --dry-run"),
        ("This key must go.", "convfs redact --pattern 'sk-[a-z0-9]{20}' --yes"),
    ],
    "prune": [
        ("What is older than a year?", "convfs prune --older-than 1y --dry-run"),
        ("Throw the trash away.", "convfs prune --trash --yes"),
    ],
    "remote": [
        ("Make a space that machines can share.", "convfs remote init team --dir ~/spaces"),
        ("Be the first in it.", "convfs remote join team ~/team --dir ~/spaces"),
        ("Invite another machine.", "CONVFS_STORE=~/team convfs remote invite > line"),
        ("Come in by that line, there.", 'convfs remote join "$(cat line)" ~/replica --wait 0'),
        ("Let it in, if the space is not mounted here.", "CONVFS_STORE=~/team convfs remote approve"),
        ("Have a new key used.", "CONVFS_STORE=~/team convfs remote rotate"),
        ("Am I up to date?", "CONVFS_STORE=~/team convfs remote status"),
    ],
    "gc": [("How much space could be freed?", "convfs gc --dry-run"), ("Free it.", "convfs gc")],
    "seal": [("Make the store smaller.", "convfs seal")],
    "fsck": [
        ("Is everything in order?", "convfs fsck"),
        ("Repair it, with what a tool still has.", "convfs fsck --repair --from ~/.claude/projects"),
    ],
    "reindex": [("Build the index anew.", "convfs reindex")],
}


def examples_of(command: str) -> str:
    """Return the examples of a command as its help shows them."""
    lines = [line for said, typed in EXAMPLES.get(command, ()) for line in (f"  # {said}", f"  {typed}")]
    return "\n".join(["\b", "Examples:", *lines])
