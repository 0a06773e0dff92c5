"""Says in plain words why the operating system refused something. Pure; any thread.

The text of an ``OSError`` ("[Errno 28] No space left on device: '/a/b'") is meant for logs.
"""

import errno

_WORDS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "your quota on this disk is used up",
    errno.EROFS: "the disk is read-only",
    errno.EACCES: "you have no permission to do that",
    errno.EPERM: "you have no permission to do that",
    errno.ENOENT: "there is no such file or folder",
    errno.ENOTDIR: "a part of its path is not a folder",
    errno.EISDIR: "it is a folder",
    errno.EEXIST: "there is already a file of that name",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EFBIG: "it is too large",
    errno.EIO: "the disk reported an error",
    errno.EMFILE: "too many files are open",
    errno.ENFILE: "too many files are open",
    errno.ENOMEM: "there is too little memory",
    errno.EBUSY: "another program is using it",
    errno.ETXTBSY: "another program is using it",
    errno.EADDRINUSE: "another program is using the port",
    errno.EADDRNOTAVAIL: "this computer does not have that address",
    errno.ECONNREFUSED: "nothing answers at that address",
    errno.ECONNRESET: "the connection was closed by the other side",
    errno.ECONNABORTED: "the connection was closed by the other side",
    errno.EPIPE: "the connection was closed by the other side",
    errno.EHOSTUNREACH: "that address cannot be reached",
    errno.ENETUNREACH: "the network cannot be reached",
    errno.ETIMEDOUT: "it took too long",
}


def os_cause(error: OSError) -> str:
    """Return why the operating system refused, as the end of a sentence without its stop."""
    if isinstance(error, TimeoutError):
        return "it took too long"
    if error.strerror is None:
        # Our own errors carry one sentence, which is written for people.
        return str(error).rstrip(".") or "the system gave no reason"
    words = _WORDS.get(error.errno or 0)
    if words is not None:
        return words
    return (error.strerror or "the system gave no reason").rstrip(".").lower()
