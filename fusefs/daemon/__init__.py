"""The operations of a process that holds a store and can render conversations: a mount, ``convfs serve``, a command."""
