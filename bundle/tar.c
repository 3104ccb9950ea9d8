/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: format_* write the canonical bytes; walk() reads headers through one window, so
 * that a small bundle, or the front of a large one, costs a read or two.
 */
#include "bundle/tar.h"

#include "runtime/base/array.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* POSIX.1-2017, pax, "ustar Interchange Format". */
typedef struct ustar {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
    char magic[8], user[32], group[32], major[8], minor[8], prefix[155], rest[12];
} ustar;
static_assert(sizeof(ustar) == TSR_TAR_BLOCK_BYTES, "a ustar header is one block");

enum {
    WINDOW_BYTES = 16 * 1024, /* at the start: fresh memory costs more than a second read */
    WINDOW_BYTES_MAX = TSR_BUNDLE_PAX_BYTES_MAX,
    FULL_NAME_MAX = 155 + 1 + 100,
    CHECKSUM_OFFSET = 148,
    CHECKSUM_SIZE = 8,
    PAX_LENGTH_DIGITS_MAX = 6,
};

tsr_entry_text tsr_entry_text_digest(const tsr_digest *digest) {
    tsr_entry_text entry = {0};
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest_format(digest, hex);
    memcpy(entry.text, hex, 8);
    return entry;
}

static tsr_entry_text name_text(const char *name, size_t length) {
    static const char folder[] = "blobs/sha256/";
    size_t skip = sizeof folder - 1, shown = 16;
    tsr_entry_text entry = {0};
    if (length == skip + TSR_DIGEST_HEX && memcmp(name, folder, skip) == 0) {
        name += skip;
        length -= skip;
        shown = 8;
    }
    for (size_t i = 0; i < length && i < shown; i++)
        entry.text[i] = (char)(name[i] >= 0x20 && name[i] < 0x7f ? name[i] : '?');
    return entry;
}

static unsigned checksum_of(const unsigned char *block) {
    unsigned sum = 0;
    for (size_t i = 0; i < TSR_TAR_BLOCK_BYTES; i++) {
        bool own = i >= CHECKSUM_OFFSET && i < CHECKSUM_OFFSET + CHECKSUM_SIZE;
        sum += own ? ' ' : block[i];
    }
    return sum;
}

void tsr_tar_format_header(unsigned char out_block[static TSR_TAR_BLOCK_BYTES], const char *name,
                           char type, uint64_t size_bytes) {
    ustar header = {
        .mode = "0000644",
        .uid = "0000000",
        .gid = "0000000",
        .mtime = "00000000000",
        .type = type,
        .magic = {'u', 's', 't', 'a', 'r', 0, '0', '0'},
        .major = "0000000",
        .minor = "0000000",
    };
    size_t length = strlen(name);
    TSR_ASSERT(length < sizeof header.name && size_bytes >> 33 == 0);
    memcpy(header.name, name, length);
    snprintf(header.size, sizeof header.size, "%011" PRIo64, size_bytes);
    memcpy(out_block, &header, sizeof header);
    snprintf(header.checksum, sizeof header.checksum, "%06o", checksum_of(out_block));
    header.checksum[7] = ' ';
    memcpy(out_block, &header, sizeof header);
}

size_t tsr_tar_pad_size(uint64_t offset) {
    const uint64_t mask = TSR_BUNDLE_ALIGN_BYTES - 1;
    if (((offset + TSR_TAR_BLOCK_BYTES) & mask) == 0) return 0;
    size_t size = (size_t)(-(offset + 2 * TSR_TAR_BLOCK_BYTES) & mask);
    return size ? size : TSR_BUNDLE_ALIGN_BYTES;
}

void tsr_tar_format_pad(unsigned char *out_record, size_t size_bytes) {
    char start[32];
    int length = snprintf(start, sizeof start, "%zu comment=", size_bytes);
    TSR_ASSERT(length > 0 && (size_t)length < size_bytes);
    memset(out_record, ' ', size_bytes);
    memcpy(out_record, start, (size_t)length);
    out_record[size_bytes - 1] = '\n';
}

typedef struct walker {
    tsr_ctx *ctx;
    const char *path;
    int fd;
    uint64_t size_bytes, at;
    unsigned char *window; /* owned */
    size_t window_capacity;
    uint64_t window_offset;
    size_t window_size;
    bool after_pax; /* the last header was a pax header: a member must follow */
} walker;

typedef struct member {
    char name[FULL_NAME_MAX + 1];
    uint64_t size_bytes;
    char type;
    tsr_entry_text entry;
} member;

/* Makes room for the data of a pax header; called at most once. */
static tsr_result grow_window(walker *w) {
    unsigned char *window = realloc(w->window, WINDOW_BYTES_MAX);
    if (!window) FAIL(w->ctx, TSR_MEMORY, "no memory to read '%s'", w->path);
    w->window = window;
    w->window_capacity = WINDOW_BYTES_MAX;
    return TSR_SUCCESS;
}

/* Requires size_bytes <= WINDOW_BYTES_MAX, and at + size_bytes inside the file. */
static tsr_result fetch(walker *w, uint64_t offset, size_t size_bytes,
                        const unsigned char **out_bytes) {
    bool inside = offset >= w->window_offset && offset - w->window_offset <= w->window_size &&
                  w->window_size - (offset - w->window_offset) >= size_bytes;
    if (!inside) {
        uint64_t left = w->size_bytes - offset;
        if (size_bytes > w->window_capacity) TRY(w->ctx, grow_window(w));
        size_t take = left < w->window_capacity ? (size_t)left : w->window_capacity;
        w->window_size = 0;
        TRY(w->ctx, tsr_io_read_exact(w->ctx, w->fd, w->path, w->window, take, offset));
        w->window_offset = offset;
        w->window_size = take;
    }
    *out_bytes = w->window + (offset - w->window_offset);
    return TSR_SUCCESS;
}

static bool is_zero(const unsigned char *bytes, size_t size_bytes) {
    for (size_t i = 0; i < size_bytes; i++)
        if (bytes[i]) return false;
    return true;
}

/* Parses octal digits that are followed by NUL or space up to the end of the field. */
static bool parse_octal(const char *field, size_t size, uint64_t *out_value) {
    uint64_t value = 0;
    size_t i = 0;
    for (; i < size && field[i] >= '0' && field[i] <= '7'; i++)
        value = value * 8 + (uint64_t)(field[i] - '0');
    if (i == 0) return false;
    for (; i < size; i++)
        if (field[i] != 0 && field[i] != ' ') return false;
    *out_value = value;
    return true;
}

static void join_name(const ustar *header, bool gnu, member *out) {
    char joined[FULL_NAME_MAX + 1];
    int prefix = gnu ? 0 : (int)strnlen(header->prefix, sizeof header->prefix);
    snprintf(joined, sizeof joined, "%.*s%s%.*s", prefix, header->prefix, prefix ? "/" : "",
             (int)strnlen(header->name, sizeof header->name), header->name);
    const char *name = joined;
    while (name[0] == '.' && name[1] == '/') name += 2;
    memcpy(out->name, name, strlen(name) + 1);
    out->entry = name_text(out->name, strlen(out->name));
}

static tsr_result parse_header(walker *w, const unsigned char *block, member *out) {
    ustar header;
    uint64_t checksum = 0;
    const uint64_t at = w->at;
    memcpy(&header, block, sizeof header);
    bool gnu = memcmp(header.magic, "ustar  ", 8) == 0;
    if (!gnu && memcmp(header.magic, "ustar\00000", 8) != 0)
        FAIL(w->ctx, TSR_CORRUPT, TSB "magic" TSB_AT "'ustar', got '%s'", w->path, at + 257, "-",
             name_text(header.magic, sizeof header.magic).text);
    join_name(&header, gnu, out);
    if (!parse_octal(header.checksum, sizeof header.checksum, &checksum))
        FAIL(w->ctx, TSR_CORRUPT, TSB "header checksum" TSB_AT "octal digits, got '%s'", w->path,
             at + CHECKSUM_OFFSET, out->entry.text,
             name_text(header.checksum, sizeof header.checksum).text);
    if (checksum != checksum_of(block))
        FAIL(w->ctx, TSR_CORRUPT, TSB "header checksum" TSB_AT "%u, got %" PRIu64, w->path,
             at + CHECKSUM_OFFSET, out->entry.text, checksum_of(block), checksum);
    if (!parse_octal(header.size, sizeof header.size, &out->size_bytes))
        FAIL(w->ctx, TSR_CORRUPT, TSB "member size" TSB_AT "octal digits, got '%s'", w->path,
             at + 124, out->entry.text, name_text(header.size, sizeof header.size).text);
    out->type = header.type;
    return TSR_SUCCESS;
}

static bool keyword_allowed(const char *keyword, size_t length) {
    static const char *const allowed[] = {"comment", "mtime", "atime", "ctime"};
    for (size_t i = 0; i < TSR_COUNT(allowed); i++)
        if (strlen(allowed[i]) == length && memcmp(allowed[i], keyword, length) == 0) return true;
    return false;
}

/* Records "<length> <keyword>=<value>\n" must fill the data exactly. */
static tsr_result check_pax(walker *w, const unsigned char *data, size_t size) {
    for (size_t at = 0; at < size;) {
        const char *record = (const char *)data + at;
        const uint64_t offset = w->at + at;
        size_t left = size - at, digits = 0, length = 0;
        while (digits < left && digits < PAX_LENGTH_DIGITS_MAX && record[digits] >= '0' &&
               record[digits] <= '9')
            length = length * 10 + (size_t)(record[digits++] - '0');
        const char *keyword = record + digits + 1;
        if (digits == 0 || record[0] == '0' || length > left || length < digits + 3 ||
            record[digits] != ' ' || record[length - 1] != '\n')
            FAIL(w->ctx, TSR_CORRUPT,
                 TSB "pax record" TSB_AT "'<length> <keyword>=<value>' in %zu bytes, got '%s'",
                 w->path, offset, "-", left, name_text(record, left).text);
        const char *equals = memchr(keyword, '=', length - digits - 2);
        size_t keyword_size = equals ? (size_t)(equals - keyword) : 0;
        if (!keyword_allowed(keyword, keyword_size))
            FAIL(w->ctx, TSR_CORRUPT,
                 TSB "pax keyword" TSB_AT "comment, mtime, atime or ctime, got '%s'", w->path,
                 offset, "-", name_text(keyword, keyword_size).text);
        at += length;
    }
    return TSR_SUCCESS;
}

static tsr_result read_pax(walker *w, const member *m) {
    const unsigned char *data;
    if (m->size_bytes > TSR_BUNDLE_PAX_BYTES_MAX)
        FAIL(w->ctx, TSR_CORRUPT, TSB "pax header size" TSB_AT "at most %d, got %" PRIu64, w->path,
             w->at, m->entry.text, TSR_BUNDLE_PAX_BYTES_MAX, m->size_bytes);
    if (w->after_pax)
        FAIL(w->ctx, TSR_CORRUPT, TSB "type" TSB_AT "a member after a pax header, got another one",
             w->path, w->at, m->entry.text);
    TRY(w->ctx, fetch(w, w->at, (size_t)m->size_bytes, &data));
    return check_pax(w, data, (size_t)m->size_bytes);
}

/* Visits one member: w->at is the offset of its header before, and the offset after its last block
 * afterwards. */
static tsr_result step(walker *w, const unsigned char *block, tsr_tar_visit_fn visit, void *user) {
    member m;
    TRY(w->ctx, parse_header(w, block, &m));
    w->at += TSR_TAR_BLOCK_BYTES;
    uint64_t left = w->size_bytes - w->at; /* a multiple of the block: the gap fits too */
    if (m.size_bytes > left)
        FAIL(w->ctx, TSR_CORRUPT,
             TSB "member size" TSB_AT "at most the %" PRIu64 " bytes left, got %" PRIu64, w->path,
             w->at, m.entry.text, left, m.size_bytes);
    if (m.type == 'x')
        TRY(w->ctx, read_pax(w, &m));
    else if (m.type == '0')
        TRY(w->ctx, visit(w->ctx, user, m.name, w->at, m.size_bytes));
    else if (m.type != '5' || m.size_bytes)
        FAIL(w->ctx, TSR_CORRUPT,
             TSB "type" TSB_AT "'0', 'x' or an empty '5', got '%s' of %" PRIu64 " bytes", w->path,
             w->at - TSR_TAR_BLOCK_BYTES + 156, m.entry.text, name_text(&m.type, 1).text,
             m.size_bytes);
    w->after_pax = m.type == 'x';
    w->at += m.size_bytes + tsr_tar_gap(m.size_bytes);
    return TSR_SUCCESS;
}

/* w->at is the offset of the first zero block. */
static tsr_result check_end(walker *w) {
    uint64_t left = w->size_bytes - w->at;
    if (w->after_pax)
        FAIL(w->ctx, TSR_CORRUPT, TSB "end" TSB_AT "a member after a pax header, got none", w->path,
             w->at, "-");
    if (left < 2 * TSR_TAR_BLOCK_BYTES || left > TSR_BUNDLE_TAIL_BYTES_MAX)
        FAIL(w->ctx, TSR_CORRUPT, TSB "end of the archive" TSB_AT "%d to %d bytes, got %" PRIu64,
             w->path, w->at, "-", 2 * TSR_TAR_BLOCK_BYTES, TSR_BUNDLE_TAIL_BYTES_MAX, left);
    for (; w->at < w->size_bytes; w->at += TSR_TAR_BLOCK_BYTES) {
        const unsigned char *block;
        TRY(w->ctx, fetch(w, w->at, TSR_TAR_BLOCK_BYTES, &block));
        if (!is_zero(block, TSR_TAR_BLOCK_BYTES))
            FAIL(w->ctx, TSR_CORRUPT, TSB "end of the archive" TSB_AT "zeros, got other bytes",
                 w->path, w->at, "-");
    }
    return TSR_SUCCESS;
}

static tsr_result walk(walker *w, tsr_tar_visit_fn visit, void *user) {
    if (w->size_bytes < TSR_BUNDLE_FILE_BYTES_MIN || w->size_bytes % TSR_TAR_BLOCK_BYTES)
        FAIL(w->ctx, TSR_CORRUPT,
             TSB "file size" TSB_AT "a multiple of %d of at least %d, got %" PRIu64 ": %s", w->path,
             UINT64_C(0), "-", TSR_TAR_BLOCK_BYTES, TSR_BUNDLE_FILE_BYTES_MIN, w->size_bytes,
             w->size_bytes ? "truncated, or not a bundle" : "empty");
    for (uint32_t count = 0;; count++) {
        const unsigned char *block;
        if (w->size_bytes - w->at < TSR_TAR_BLOCK_BYTES)
            FAIL(w->ctx, TSR_CORRUPT, TSB "end of the archive" TSB_AT "two zero blocks, got none",
                 w->path, w->at, "-");
        TRY(w->ctx, fetch(w, w->at, TSR_TAR_BLOCK_BYTES, &block));
        if (is_zero(block, TSR_TAR_BLOCK_BYTES)) return check_end(w);
        if (count >= TSR_BUNDLE_MEMBERS_MAX)
            FAIL(w->ctx, TSR_CORRUPT, TSB "members" TSB_AT "at most %d, got more", w->path, w->at,
                 "-", TSR_BUNDLE_MEMBERS_MAX);
        TRY(w->ctx, step(w, block, visit, user));
    }
}

tsr_result tsr_tar_walk(tsr_ctx *ctx, int fd, const char *path, uint64_t file_size_bytes,
                        tsr_tar_visit_fn visit, void *user) {
    walker w = {.ctx = ctx, .path = path, .fd = fd, .size_bytes = file_size_bytes};
    w.window = malloc(WINDOW_BYTES);
    w.window_capacity = WINDOW_BYTES;
    if (!w.window) FAIL(ctx, TSR_MEMORY, "no memory to read '%s'", path);
    tsr_result result = walk(&w, visit, user);
    free(w.window);
    return result;
}
