"""addid.py IN OUT: copies the 64-bit little-endian ELF file IN and appends a
.note.gnu.build-id section, by section header only: the load layout stays."""
import hashlib
import shutil
import struct
import sys

src, dst = sys.argv[1:3]
shutil.copy(src, dst)
with open(dst, "r+b") as f:
    ehdr = bytearray(f.read(64))
    (shoff,) = struct.unpack_from("<Q", ehdr, 40)
    entsize, count, names = struct.unpack_from("<HHH", ehdr, 58)
    f.seek(shoff)
    headers = [bytearray(f.read(entsize)) for _ in range(count)]
    offset, size = struct.unpack_from("<QQ", headers[names], 24)
    f.seek(offset)
    strtab = f.read(size)
    name = len(strtab)
    strtab += b".note.gnu.build-id\0"
    note = struct.pack("<III", 4, 20, 3) + b"GNU\0" + hashlib.sha1(src.encode() + bytes(ehdr)).digest()
    f.seek(0, 2)
    at = (f.tell() + 15) & ~15
    f.truncate(at)
    f.seek(at)
    f.write(note)
    f.write(strtab)
    struct.pack_into("<QQ", headers[names], 24, at + len(note), len(strtab))
    headers.append(bytearray(struct.pack("<IIQQQQIIQQ", name, 7, 0, 0, at, len(note), 0, 0, 4, 0)))
    end = at + len(note) + len(strtab)
    f.write(b"\0" * (-end % 16))
    for h in headers:
        f.write(h)
    struct.pack_into("<Q", ehdr, 40, end + -end % 16)
    struct.pack_into("<H", ehdr, 60, count + 1)
    f.seek(0)
    f.write(ehdr)
