"""Tools of all agents, by what they do.

They are called so in any of these programs; those that spell a name with capitals, with a prefix of their own or with
other joints are found by the same words.
"""

READERS = frozenset((
    "copilotreadfile", "fsread", "fsreadfile", "open", "read", "readfile", "readfiles", "readfilev2", "view",
    "viewfile",
))
WRITERS = frozenset((
    "copilotcreatefile", "create", "createfile", "createnewfile", "fscreatefile", "fswrite", "write", "writefile",
    "writetofile",
))
EDITORS = frozenset((
    "applydiff", "copilotmultireplacestring", "copilotreplacestring", "edit", "editfile", "editor", "fsmodifyfile",
    "multiedit", "multireplacefilecontent", "multireplacestringinfile", "patch", "replace", "replacefilecontent",
    "replaceinfile", "replacestringinfile", "searchandreplace", "searchreplace", "singlefindandreplace", "strreplace",
    "strreplacefile",
))
INSERTERS = frozenset(("fsappend", "insertcontent", "insertedittext"))
PLANNERS = frozenset(("settodolist", "todolist", "todowrite", "updateplan", "updatetodos", "writetodos"))
PATCHERS = frozenset(("applypatch", "copilotapplypatch", "patch"))
DELETERS = frozenset(("delete", "deletefile", "removefile"))
SHELLS = frozenset((
    "bash", "commandexecution", "execcommand", "execute", "executebash", "executecommand", "executepwsh",
    "localshell", "powershell", "runcommand", "runcommands", "runinterminal", "runshellcommand", "runterminalcmd",
    "runterminalcommand", "runterminalcommandv2", "shell", "terminal",
))
MANY = frozenset((
    "editor", "fileeditor", "fswrite", "strreplacebasededittool", "strreplaceeditor", "texteditor", "write",
))
"""Tools with a command of their own: view, create, str_replace, and others that say too little."""
OF_MANY = {
    "view": "view",
    "read": "view",
    "create": "create",
    "write": "create",
    "str_replace": "edit",
    "strreplace": "edit",
    "strReplace": "edit",
    "append": "fsappend",
    "insert": "fsappend",
}


def known_as(tool: str) -> str:
    """Return the name of a tool in the spelling of the sets above: without its server, its program and joints."""
    named = own_name(tool).lower().removeprefix("builtin_").replace("_", "").replace("-", "")
    return named.removesuffix("toolcall")


def own_name(tool: str) -> str:
    """Return the name of a tool without that of the server that has it (``mcp__SERVER__TOOL``)."""
    return tool.rpartition("__")[2] or tool


def is_shell(tool: str) -> bool:
    """Return whether a tool runs commands."""
    return known_as(tool) in SHELLS
