# SPDX-License-Identifier: Apache-2.0
"""A state directory read by the book (docs/state-store.md, "Files"), with nothing of the product: which
names there are, which manifests can be trusted, and whether the data has the digests they state.
"""
import hashlib
import os
import re
import struct

LEAF, CHUNK = 16 << 10, 4 << 20


class Damage(Exception):
    pass


def sha256(data):
    return hashlib.sha256(data).digest()


def joined(digests):
    """Of a range, from those of its chunks."""
    return digests[0] if len(digests) == 1 else sha256(b"".join(digests))


def tree(data):
    """SHA-256 over the SHA-256 of 16 KiB leaves, per chunk of 4 MiB."""
    return joined([sha256(b"".join(sha256(data[at:min(at + LEAF, end)])
                                   for at in range(start, end, LEAF)))
                   for start in range(0, len(data), CHUNK)
                   for end in [min(start + CHUNK, len(data))]])


class Reader:
    """Takes fields from bytes, in order; running out of them is damage."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        form = "<" + form
        try:
            values = struct.unpack_from(form, self.data, self.at)
        except struct.error as error:
            raise Damage("it ends at byte %d" % len(self.data)) from error
        self.at += struct.calcsize(form)
        return values if len(values) > 1 else values[0]

    def skip(self, size):
        self.take("%ds" % size)


class Manifest:
    def __init__(self, data):
        if sha256(data[:-32]) != data[-32:]:
            raise Damage("its hash is not that of its bytes")
        self.hash = data[-32:].hex()
        self._token(Reader(data))
        self._map(Reader(data[self.token_size:-32]))
        if self.state != self.state_hash():
            raise Damage("its state hash is not that of its tensors")

    def _token(self, fields):
        magic, version, self.token_size = fields.take("8sII")
        if magic != b"TSRTOKEN" or version not in (1, 2, 3):
            raise Damage("its token is not of version 1 to 3")
        self.generation, self.epoch = fields.take("QQ")
        self.position = fields.take("5Q")
        if version >= 2:
            self.epoch_base, self.rows = fields.take("QQ"), fields.take("Q")
            self.data = fields.take("32s").hex()
        if version >= 3:
            self.program = fields.take("32s").hex()
        fields.skip(32)
        self.state = fields.take("32s").hex()
        token = fields.data[:self.token_size]
        if sha256(token[:-32]) != token[-32:]:
            raise Damage("the hash of its token is not that of its bytes")
        self.token = token[-32:].hex()

    def _map(self, fields):
        if fields.take("8s") != b"TSRSTATE":
            raise Damage("it has no map")
        self.previous = fields.take("QQ")
        self.previous_hash = fields.take("32s").hex()
        segments, tensors, _, _ = fields.take("4I")
        self.segments = [fields.take("Q") for _ in range(segments)]
        self.tensors = []
        for _ in range(tensors):
            length, dtype, rank, chunks = fields.take("HHII")
            dims = [fields.take("Q") for _ in range(rank)]
            digest = fields.take("32s")
            name = fields.take("%ds" % length)
            self.tensors.append((name, dtype, dims, digest, chunks))
        self.chunks = []
        for tensor in self.tensors:
            rows = [fields.take("QQQII32s") for _ in range(tensor[4])]
            self.chunks.append(rows)
            if (joined([row[5] for row in rows]) if rows else sha256(b"")) != tensor[3]:
                raise Damage("the digest of tensor '%s' is not that of its chunks" %
                             tensor[0].decode())
        if fields.at != len(fields.data):
            raise Damage("%d bytes follow its map" % (len(fields.data) - fields.at))

    def state_hash(self):
        hashed = hashlib.sha256(b"tessera.state.1\0" + struct.pack("<Q", len(self.tensors)))
        for name, dtype, dims, digest, _ in self.tensors:
            hashed.update(struct.pack("<I", len(name)) + name)
            hashed.update(struct.pack("<II%dQ" % len(dims), dtype, len(dims), *dims) + digest)
        return hashed.hexdigest()

    def check_data(self, folder):
        data = []
        for index, size in enumerate(self.segments):
            path = os.path.join(folder, "segment.%d" % index)
            try:
                with open(path, "rb") as file:
                    data.append(file.read())
            except OSError as error:
                raise Damage("segment.%d cannot be read: %s" % (index, error.strerror)) from error
            if len(data[-1]) != size:
                raise Damage("segment.%d has %d bytes; %d are stated" % (index, len(data[-1]), size))
        for tensor, rows in zip(self.tensors, self.chunks):
            for first, _, offset, segment, size, digest in rows:
                if tree(data[segment][offset:offset + size]) != digest:
                    raise Damage("tensor '%s' is another from element %d on" %
                                 (tensor[0].decode(), first))


class Listing:
    """names: of the root; folders: of gen/; manifests: {(generation, epoch): hash}; damage: what does
    not verify, {(generation, epoch): why}."""

    def __init__(self, directory, data=True):
        self.names = set(os.listdir(directory))
        gen = os.path.join(directory, "gen")
        self.folders = set(os.listdir(gen)) if os.path.isdir(gen) else set()
        self.manifests, self.damage = {}, {}
        for name in sorted(self.names):
            found = re.fullmatch(r"MANIFEST\.(\d+)\.(\d+)", name)
            if not found:
                continue
            key = int(found.group(1)), int(found.group(2))
            try:
                with open(os.path.join(directory, name), "rb") as file:
                    manifest = Manifest(file.read())
                if (manifest.generation, manifest.epoch) != key:
                    raise Damage("its token is of generation %d of epoch %d" %
                                 (manifest.generation, manifest.epoch))
                self.manifests[key] = manifest.hash
                if data:
                    manifest.check_data(os.path.join(gen, "%d-%d" % (key[1], key[0])))
            except Damage as damage:
                self.damage[key] = str(damage)
        self._look_for_lost(gen)

    def _look_for_lost(self, gen):
        """The newest of all was acknowledged once, and its manifest is missing."""
        known = set(self.manifests) | set(self.damage)
        newest = max([generation for generation, _ in known], default=0)
        for folder in self.folders:
            found = re.fullmatch(r"(\d+)-(\d+)", folder)
            if not found or not os.path.exists(os.path.join(gen, folder, "COMMITTED")):
                continue
            key = int(found.group(2)), int(found.group(1))
            if key not in known and key[0] > newest:
                self.damage[key] = "its manifest is missing"
