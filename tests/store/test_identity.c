/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that are intact, but not the committed ones.
 */
#include "tests/store/fixture.h"

#include <fcntl.h>

static void copy_file(bench *from, bench *to, const char *path) {
    size_t size = 0, room = 0;
    const uint8_t *source = fault_io_bytes(from->disk, path, &size);
    uint8_t *target = fault_io_bytes(to->disk, path, &room);
    cr_assert(source && target && size == room, "%s", path);
    memcpy(target, source, size);
}

/* An additional byte that belongs to no chunk: none of the bytes that are read are wrong. */
Test(identity, segment_that_grew) {
    bench *b = begin();
    size_t size = 0;
    must_open(b);
    must_save(b, 1, 2);
    cr_assert(fault_io_bytes(b->disk, "/s/gen/1-2/segment.0", &size));
    int fd = b->ctx.io->open(b->ctx.io->self, TSR_IO_CWD, "/s/gen/1-2/segment.0", O_WRONLY, 0);
    cr_assert_eq(b->ctx.io->pwrite(b->ctx.io->self, fd, "x", 1, (off_t)size), 1);
    b->ctx.io->close(b->ctx.io->self, fd);
    must_open(b);
    cr_assert_eq(b->recovery.damaged_count, 1);
    cr_assert(strstr(b->log.last_error, "bytes; the manifest states"), "%s", b->log.last_error);
    must_load(b, 1);
    end(b);
}

/* Generation 2 of another store: valid, with the same numbers, but not the one that the BASE of
 * epoch 2 names. */
Test(identity, generation_of_another_store) {
    bench *b = begin(), *other = begin();
    must_open(b);
    must_save(b, 1, 2);
    must_open(b);
    must_open(other);
    must_save(other, 11, 12);
    copy_file(other, b, "/s/MANIFEST.2.1");
    copy_file(other, b, "/s/gen/1-2/segment.0");
    must_open(b);
    cr_assert_eq(b->recovery.damaged_count, 1);
    cr_assert(
        strstr(b->log.last_error, "MANIFEST.2.1 is not the manifest that a later run resumed from"),
        "%s", b->log.last_error);
    must_load(b, 1);
    end(other);
    end(b);
}

/* The newest generation of the previous epoch, which the BASE names, is missing with all files that
 * mention it. */
Test(identity, generation_that_is_gone) {
    bench *b = begin();
    must_open(b);
    must_save(b, 1, 2);
    must_open(b);
    close_store(b);
    cr_assert(fault_io_remove(b->disk, "/s/MANIFEST.2.1"));
    cr_assert(fault_io_remove(b->disk, "/s/SPARE.2"));
    cr_assert(fault_io_remove(b->disk, "/s/gen/1-2/segment.0"));
    cr_assert(fault_io_remove(b->disk, "/s/gen/1-2/COMMITTED"));
    must_open(b);
    cr_assert_eq(b->recovery.damaged_count, 1);
    cr_assert_str_eq(b->log.last_error,
                     "generation 2 of epoch 1 was committed, but its manifest is missing");
    must_load(b, 1);
    end(b);
}
