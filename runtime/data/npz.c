/* SPDX-License-Identifier: Apache-2.0
 *
 * Members of NumPy's .npz, a zip archive (APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3) of .npy
 * files, stored or deflated. The central directory is authoritative; local headers are only checked
 * against it. Steps: find the end record (and its zip64 counterpart), read the directory, select
 * the member, check its local header, verify its CRC-32 (inflate it if necessary), pass the window
 * to the .npy reader.
 */
#include "runtime/base/io/io.h"
#include "runtime/base/plural.h"
#include "runtime/data/array_source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR64_BYTES = 20,
    ENTRY_BYTES = 46,
    LOCAL_BYTES = 30,
    COMMENT_MAX = 65535,
    METHOD_STORED = 0,
    METHOD_DEFLATED = 8,
    FLAG_ENCRYPTED = 1,
    EXTRA_ZIP64 = 1,
    INFLATE_RATIO_MAX = 1040, /* deflate expands one byte to at most 1032 */
};

typedef struct zip_directory {
    uint64_t offset_bytes, size_bytes, entry_count;
    const unsigned char *bytes; /* in the scratch arena */
} zip_directory;

typedef struct zip_entry {
    const char *name; /* borrowed from the directory; not terminated */
    size_t name_length;
    unsigned flags, method;
    uint32_t crc;
    uint64_t packed_bytes, size_bytes, local_offset;
} zip_entry;

static uint16_t get16(const unsigned char *at) { return (uint16_t)(at[0] | at[1] << 8); }
static uint32_t get32(const unsigned char *at) { return get16(at) | (uint32_t)get16(at + 2) << 16; }
static uint64_t get64(const unsigned char *at) { return get32(at) | (uint64_t)get32(at + 4) << 32; }

static tsr_result malformed(tsr_ctx *ctx, const tsr_array *array, const char *what) {
    FAIL(ctx, TSR_DATA, "'%s': not a usable zip archive: %s", array->spec, what);
}

/* Finds the zip64 end record, if its locator is before the end record at `end_offset`. Some writers
 * leave the plain record usable, so its fields do not show if there is a zip64 record. */
static tsr_result find_directory64(tsr_ctx *ctx, const tsr_array *array, uint64_t end_offset,
                                   bool *out_found, zip_directory *out) {
    unsigned char locator[LOCATOR64_BYTES], end[END64_BYTES];
    *out_found = false;
    if (end_offset < LOCATOR64_BYTES + END64_BYTES) return TSR_SUCCESS;
    TRY(ctx, tsr_array_fetch(ctx, array, end_offset - LOCATOR64_BYTES, locator, sizeof locator));
    uint64_t at = get64(locator + 8);
    if (memcmp(locator, "PK\6\7", 4) != 0) return TSR_SUCCESS;
    *out_found = true;
    if (get32(locator + 4) != 0 || get32(locator + 16) > 1)
        return malformed(ctx, array, "the zip64 locator names another disk");
    if (at > end_offset - LOCATOR64_BYTES - END64_BYTES)
        return malformed(ctx, array, "the zip64 end record is outside the file");
    TRY(ctx, tsr_array_fetch(ctx, array, at, end, sizeof end));
    if (memcmp(end, "PK\6\6", 4) != 0 || get32(end + 16) != 0 || get32(end + 20) != 0 ||
        get64(end + 4) != end_offset - LOCATOR64_BYTES - at - 12 ||
        get64(end + 24) != get64(end + 32))
        return malformed(ctx, array, "the zip64 end record is inconsistent");
    *out = (zip_directory){.offset_bytes = get64(end + 48),
                           .size_bytes = get64(end + 40),
                           .entry_count = get64(end + 32)};
    if (out->offset_bytes > at || out->size_bytes != at - out->offset_bytes)
        return malformed(ctx, array, "the directory does not end where the end record begins");
    return TSR_SUCCESS;
}

static tsr_result find_directory(tsr_ctx *ctx, const tsr_array *array, tsr_arena *scratch,
                                 zip_directory *out) {
    const uint64_t file_size = array->size_bytes;
    size_t tail_size = END_BYTES + COMMENT_MAX;
    if (file_size < END_BYTES)
        return malformed(ctx, array, "the file is shorter than an end record");
    if (tail_size > file_size) tail_size = (size_t)file_size;
    unsigned char *tail = TSR_NEW(scratch, unsigned char, tail_size);
    if (!tail) FAIL(ctx, TSR_MEMORY, "no memory to read '%s'", array->spec);
    TRY(ctx, tsr_array_fetch(ctx, array, file_size - tail_size, tail, tail_size));
    for (size_t at = tail_size - END_BYTES + 1; at-- > 0;) {
        const unsigned char *end = tail + at;
        if (memcmp(end, "PK\5\6", 4) != 0 || get16(end + 20) != tail_size - at - END_BYTES)
            continue;
        const uint64_t end_offset = file_size - tail_size + at;
        *out = (zip_directory){.offset_bytes = get32(end + 16),
                               .size_bytes = get32(end + 12),
                               .entry_count = get16(end + 10)};
        bool found = false;
        TRY(ctx, find_directory64(ctx, array, end_offset, &found, out));
        if (found) return TSR_SUCCESS;
        if (get16(end + 4) != 0 || get16(end + 6) != 0 || get16(end + 8) != get16(end + 10))
            return malformed(ctx, array, "it is spread over several disks");
        if (out->offset_bytes > end_offset || out->size_bytes != end_offset - out->offset_bytes)
            return malformed(ctx, array, "the directory does not end where the end record begins");
        return TSR_SUCCESS;
    }
    return malformed(ctx, array, "no end record (truncated?)");
}

/* 64-bit values replace the entry's values that are all ones, in this order. */
static bool read_zip64(const unsigned char *extra, size_t size, zip_entry *entry) {
    while (size >= 4) {
        size_t length = get16(extra + 2);
        if (length > size - 4) return false;
        if (get16(extra) == EXTRA_ZIP64) {
            uint64_t *fields[] = {&entry->size_bytes, &entry->packed_bytes, &entry->local_offset};
            const unsigned char *at = extra + 4;
            for (size_t i = 0; i < 3; i++) {
                if (*fields[i] != UINT32_MAX) continue;
                if (length < 8) return false;
                *fields[i] = get64(at);
                at += 8;
                length -= 8;
            }
            return true;
        }
        extra += 4 + length;
        size -= 4 + length;
    }
    return true;
}

/* Reads the entry at *offset of the directory; moves *offset past the entry. */
static bool read_entry(const zip_directory *directory, uint64_t *offset, zip_entry *out) {
    const unsigned char *at = directory->bytes + *offset;
    const uint64_t left = directory->size_bytes - *offset;
    if (left < ENTRY_BYTES || memcmp(at, "PK\1\2", 4) != 0) return false;
    size_t name = get16(at + 28), extra = get16(at + 30), comment = get16(at + 32);
    if (left - ENTRY_BYTES < name + extra + comment || get16(at + 34) != 0) return false;
    *out = (zip_entry){.name = (const char *)at + ENTRY_BYTES,
                       .name_length = name,
                       .flags = get16(at + 8),
                       .method = get16(at + 10),
                       .crc = get32(at + 16),
                       .packed_bytes = get32(at + 20),
                       .size_bytes = get32(at + 24),
                       .local_offset = get32(at + 42)};
    *offset += ENTRY_BYTES + name + extra + comment;
    return read_zip64(at + ENTRY_BYTES + name, extra, out);
}

/* "a" and "a.npy" both name the member "a.npy". */
static bool is_named(const zip_entry *entry, const char *member) {
    size_t length = strlen(member);
    if (entry->name_length < length || memcmp(entry->name, member, length) != 0) return false;
    return entry->name_length == length ||
           (entry->name_length == length + 4 && memcmp(entry->name + length, ".npy", 4) == 0);
}

static tsr_result select_entry(tsr_ctx *ctx, const tsr_array *array, const zip_directory *directory,
                               const char *member, zip_entry *out) {
    tsr_name_list names = {0};
    uint64_t offset = 0, matches = 0;
    for (uint64_t i = 0; i < directory->entry_count; i++) {
        zip_entry entry;
        if (!read_entry(directory, &offset, &entry))
            return malformed(ctx, array, "the directory is damaged");
        tsr_name_list_add(&names, entry.name, entry.name_length);
        if (member && !is_named(&entry, member)) continue;
        *out = entry;
        matches++;
    }
    if (offset != directory->size_bytes)
        return malformed(ctx, array, "the directory has more bytes than entries");
    if (matches == 1) return TSR_SUCCESS;
    if (!matches)
        FAIL(ctx, TSR_DATA, "'%s': %s; the archive has: %s", array->spec,
             member ? "no such member" : "the archive has no member",
             names.length ? names.text : "none");
    FAIL(ctx, TSR_DATA, "'%s': %" PRIu64 " members match; name one as FILE.npz:MEMBER: %s",
         array->spec, matches, names.text);
}

/* Checks the local header and narrows the window to the packed bytes. */
static tsr_result open_entry(tsr_ctx *ctx, tsr_array *array, const zip_directory *directory,
                             const zip_entry *entry, tsr_arena *scratch) {
    unsigned char local[LOCAL_BYTES];
    const uint64_t limit = directory->offset_bytes;
    if (entry->flags & FLAG_ENCRYPTED) return malformed(ctx, array, "the member is encrypted");
    if (entry->method != METHOD_STORED && entry->method != METHOD_DEFLATED)
        FAIL(ctx, TSR_DATA, "'%s' is packed by zip method %u; expected 0 (stored) or 8 (deflated)",
             array->spec, entry->method);
    if (entry->local_offset > limit || limit - entry->local_offset < LOCAL_BYTES)
        return malformed(ctx, array, "the member is outside the file");
    TRY(ctx, tsr_array_fetch(ctx, array, entry->local_offset, local, sizeof local));
    uint64_t at = entry->local_offset + LOCAL_BYTES, name = get16(local + 26);
    if (memcmp(local, "PK\3\4", 4) != 0 || name != entry->name_length ||
        get16(local + 8) != entry->method || limit - at < name)
        return malformed(ctx, array, "local header and directory disagree");
    char *local_name = TSR_NEW(scratch, char, (size_t)name + 1);
    if (!local_name) FAIL(ctx, TSR_MEMORY, "no memory to read '%s'", array->spec);
    TRY(ctx, tsr_array_fetch(ctx, array, at, local_name, (size_t)name));
    if (memcmp(local_name, entry->name, (size_t)name) != 0)
        return malformed(ctx, array, "local header and directory disagree about the name");
    at += name + get16(local + 28);
    if (at > limit || entry->packed_bytes > limit - at)
        return malformed(ctx, array, "the member is outside the file");
    if (entry->method == METHOD_STORED && entry->packed_bytes != entry->size_bytes)
        return malformed(ctx, array, "a stored member has two sizes");
    array->offset_bytes += at;
    array->size_bytes = entry->packed_bytes;
    return TSR_SUCCESS;
}

static tsr_result check_crc(tsr_ctx *ctx, const tsr_array *array, uint32_t found,
                            uint32_t expected) {
    if (found == expected) return TSR_SUCCESS;
    FAIL(ctx, TSR_DATA, "'%s' has CRC-32 %08x; its directory says %08x", array->spec, found,
         expected);
}

static tsr_result verify_stored(tsr_ctx *ctx, const tsr_array *array, const zip_entry *entry,
                                unsigned char *buffer) {
    uLong crc = crc32(0, NULL, 0);
    for (uint64_t at = 0; at < array->size_bytes;) {
        uint64_t left = array->size_bytes - at;
        size_t part = left < TSR_READ_BYTES ? (size_t)left : TSR_READ_BYTES;
        TRY(ctx, tsr_array_fetch(ctx, array, at, buffer, part));
        crc = crc32(crc, buffer, (uInt)part);
        at += part;
    }
    return check_crc(ctx, array, (uint32_t)crc, entry->crc);
}

/* Inflates the window into `out`, exactly entry->size_bytes bytes from exactly the window's. */
static tsr_result inflate_window(tsr_ctx *ctx, const tsr_array *array, const zip_entry *entry,
                                 unsigned char *buffer, unsigned char *out) {
    tsr_result result = TSR_SUCCESS;
    z_stream stream = {0};
    uint64_t at = 0, done = 0;
    uLong crc = crc32(0, NULL, 0);
    int code = inflateInit2(&stream, -MAX_WBITS);
    if (code != Z_OK) FAIL(ctx, TSR_MEMORY, "no memory to inflate '%s'", array->spec);
    while (code == Z_OK) {
        if (!stream.avail_in && at < array->size_bytes) {
            uint64_t left = array->size_bytes - at;
            size_t part = left < TSR_READ_BYTES ? (size_t)left : TSR_READ_BYTES;
            TRY_GOTO(ctx, result, tsr_array_fetch(ctx, array, at, buffer, part));
            stream.next_in = buffer;
            stream.avail_in = (uInt)part;
            at += part;
        }
        uint64_t capacity = entry->size_bytes - done;
        uInt offered = capacity < TSR_READ_BYTES ? (uInt)capacity : TSR_READ_BYTES;
        stream.next_out = out + done;
        stream.avail_out = offered;
        code = inflate(&stream, Z_NO_FLUSH);
        crc = crc32(crc, out + done, offered - stream.avail_out);
        done += offered - stream.avail_out;
    }
    if (code != Z_STREAM_END || done != entry->size_bytes || stream.avail_in ||
        at != array->size_bytes)
        FAIL_GOTO(ctx, result, TSR_DATA,
                  "'%s' does not inflate: %" PRIu64 " of %" PRIu64 " byte%s from %" PRIu64
                  " of %" PRIu64 " (%s)",
                  array->spec, done, entry->size_bytes, TSR_PLURAL(entry->size_bytes),
                  at - stream.avail_in, array->size_bytes, stream.msg ? stream.msg : zError(code));
    TRY_GOTO(ctx, result, check_crc(ctx, array, (uint32_t)crc, entry->crc));
done:
    inflateEnd(&stream);
    return result;
}

static tsr_result unpack(tsr_ctx *ctx, tsr_array *array, const zip_entry *entry,
                         tsr_arena *scratch) {
    unsigned char *buffer = TSR_NEW(scratch, unsigned char, TSR_READ_BYTES);
    if (!buffer) FAIL(ctx, TSR_MEMORY, "no memory to read '%s'", array->spec);
    if (entry->method == METHOD_STORED) return verify_stored(ctx, array, entry, buffer);
    if (entry->size_bytes / INFLATE_RATIO_MAX > entry->packed_bytes)
        FAIL(ctx, TSR_DATA,
             "'%s' claims to inflate from %" PRIu64 " to %" PRIu64 " byte%s; deflate cannot",
             array->spec, entry->packed_bytes, entry->size_bytes, TSR_PLURAL(entry->size_bytes));
    unsigned char *memory = malloc((size_t)entry->size_bytes + 1);
    if (!memory)
        FAIL(ctx, TSR_MEMORY, "no memory for the %" PRIu64 " bytes of '%s'", entry->size_bytes,
             array->spec);
    tsr_result result = inflate_window(ctx, array, entry, buffer, memory);
    if (result.code) {
        free(memory);
        return result;
    }
    array->memory = memory;
    array->offset_bytes = 0;
    array->size_bytes = entry->size_bytes;
    return TSR_SUCCESS;
}

tsr_result tsr_npz_locate(tsr_ctx *ctx, tsr_array *array, const char *member, tsr_dtype flat) {
    tsr_result result = TSR_SUCCESS;
    tsr_arena scratch = {0};
    zip_directory directory = {0};
    zip_entry entry = {0};
    TRY_GOTO(ctx, result, find_directory(ctx, array, &scratch, &directory));
    if (directory.size_bytes > TSR_ZIP_DIRECTORY_MAX)
        FAIL_GOTO(ctx, result, TSR_DATA,
                  "'%s' has a zip directory of %" PRIu64 " byte%s; at most %d are accepted",
                  array->spec, directory.size_bytes, TSR_PLURAL(directory.size_bytes),
                  TSR_ZIP_DIRECTORY_MAX);
    unsigned char *bytes = TSR_NEW(&scratch, unsigned char, (size_t)directory.size_bytes + 1);
    if (!bytes) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to read '%s'", array->spec);
    TRY_GOTO(
        ctx, result,
        tsr_array_fetch(ctx, array, directory.offset_bytes, bytes, (size_t)directory.size_bytes));
    directory.bytes = bytes;
    TRY_GOTO(ctx, result, select_entry(ctx, array, &directory, member, &entry));
    TRY_GOTO(ctx, result, open_entry(ctx, array, &directory, &entry, &scratch));
    TRY_GOTO(ctx, result, unpack(ctx, array, &entry, &scratch));
    TRY_GOTO(ctx, result, tsr_npy_locate(ctx, array, NULL, flat));
done:
    tsr_arena_finish(&scratch);
    return result;
}
