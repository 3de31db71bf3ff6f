"""Runs a command under the system call filter that is given, and without memory that is writable and executable.

`python confined.py NUMBERS COMMAND…`: what SystemCallFilter= (with EPERM) and MemoryDenyWriteExecute= of a systemd unit do.
"""

import ctypes
import os
import struct
import sys

NO_NEW_PRIVILEGES, SECCOMP, DENY_WRITE_EXECUTE = 38, 22, 65  # operations of prctl
LOAD_NUMBER, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | 1  # the latter with EPERM


class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def main():
    numbers = [int(number) for number in sys.argv[1].split(",")]
    rules = [(LOAD_NUMBER, 0, 0, 0)]
    for number in numbers:
        rules += [(JUMP_IF_EQUAL, 0, 1, number), (RETURN, 0, 0, ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in [*rules, (RETURN, 0, 0, REFUSE)]))
    program = Program(len(rules) + 1, ctypes.cast(code, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    for call in (
        (NO_NEW_PRIVILEGES, 1, 0, 0, 0),
        (DENY_WRITE_EXECUTE, 1, 0, 0, 0),
        (SECCOMP, 2, ctypes.byref(program), 0, 0),
    ):
        if libc.prctl(*call):
            sys.exit(f"prctl {call[0]}: {os.strerror(ctypes.get_errno())}")
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
