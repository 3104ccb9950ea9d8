/* SPDX-License-Identifier: Apache-2.0
 *
 * Foreign and hostile archives: repack restores those that normal mode accepts; the rest is
 * refused.
 */
#include "bundle/layout.h"
#include "runtime/base/array.h"
#include "tests/bundle/sample.h"

#include <archive.h>
#include <archive_entry.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MEMBERS_MAX = 32 };

typedef struct member {
    char name[100];
    void *bytes; /* owned */
    size_t size;
} member;

/* Reads all members of a bundle with libarchive. */
static size_t read_members(const char *path, member *members) {
    struct archive *archive = archive_read_new();
    struct archive_entry *entry;
    size_t count = 0;
    archive_read_support_format_tar(archive);
    cr_assert_eq(archive_read_open_filename(archive, path, 65536), ARCHIVE_OK);
    for (; archive_read_next_header(archive, &entry) == ARCHIVE_OK; count++) {
        member *m = &members[count];
        cr_assert_lt(count, MEMBERS_MAX);
        snprintf(m->name, sizeof m->name, "%s", archive_entry_pathname(entry));
        m->size = (size_t)archive_entry_size(entry);
        m->bytes = malloc(m->size);
        cr_assert_eq(archive_read_data(archive, m->bytes, m->size), (ssize_t)m->size);
    }
    archive_read_free(archive);
    return count;
}

static void add_entry(struct archive *archive, const char *name, mode_t type, const void *bytes,
                      size_t size) {
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, name);
    archive_entry_set_filetype(entry, type);
    archive_entry_set_perm(entry, 0755);
    archive_entry_set_size(entry, (la_int64_t)size);
    archive_entry_set_mtime(entry, 1700000000, 123456789);
    archive_entry_set_uid(entry, 1000);
    archive_entry_set_uname(entry, "somebody");
    cr_assert_eq(archive_write_header(archive, entry), ARCHIVE_OK, "%s",
                 archive_error_string(archive));
    if (size) cr_assert_eq(archive_write_data(archive, bytes, size), (la_ssize_t)size);
    archive_entry_free(entry);
}

static void check_repack(const char *from, const char *canonical) {
    tsr_ctx ctx = {0};
    tsr_bundle *bundle = NULL;
    tsr_bundle_verify_report report;
    size_t size, expected_size;
    sample_must(&ctx, tsr_bundle_open(&ctx, from, NULL, &bundle));
    sample_must(&ctx, tsr_bundle_verify(&ctx, bundle, 2, &report));
    tsr_bundle_close(&ctx, bundle);
    sample_must(&ctx, tsr_bundle_repack(&ctx, from, sample_path("repacked.tsb")));
    char *got = sample_load(sample_path("repacked.tsb"), &size);
    char *expected = sample_load(canonical, &expected_size);
    cr_assert_eq(size, expected_size);
    cr_assert_arr_eq(got, expected, size);
    free(got);
    free(expected);
}

/* Reversed order, "./" names, directories, additional files, times, owners, three dialects of
 * tar. */
static void check_foreign(const char *dialect) {
    static const tsr_bundle_open_options strict = {.size_bytes = sizeof strict, .strict = true};
    tsr_ctx ctx = {0};
    member members[MEMBERS_MAX];
    char name[128], canonical[256], foreign[256];
    snprintf(canonical, sizeof canonical, "%s", sample_path("canonical.tsb"));
    snprintf(foreign, sizeof foreign, "%s", sample_path(dialect));
    sample_must(&ctx, sample_write(&ctx, canonical, SAMPLE_SMALL, false));
    size_t count = read_members(canonical, members);
    struct archive *archive = archive_write_new();
    cr_assert_eq(archive_write_set_format_by_name(archive, dialect), ARCHIVE_OK);
    cr_assert_eq(archive_write_open_filename(archive, foreign), ARCHIVE_OK);
    add_entry(archive, "./", AE_IFDIR, NULL, 0);
    add_entry(archive, "./blobs/sha256/", AE_IFDIR, NULL, 0);
    for (size_t i = count; i-- > 0;) {
        snprintf(name, sizeof name, "./%s", members[i].name);
        add_entry(archive, name, AE_IFREG, members[i].bytes, members[i].size);
        free(members[i].bytes);
    }
    add_entry(archive, "README", AE_IFREG, "hello", 5);
    add_entry(archive, "blobs/sha256/notahash", AE_IFREG, "hello", 5);
    /* No manifest names this blob, so its content is ignored. */
    memset(strcpy(name, TSR_BLOB_FOLDER) + sizeof TSR_BLOB_FOLDER - 1, 'a', TSR_DIGEST_HEX);
    name[sizeof TSR_BLOB_FOLDER - 1 + TSR_DIGEST_HEX] = 0;
    add_entry(archive, name, AE_IFREG, "hello", 5);
    archive_write_close(archive);
    archive_write_free(archive);
    tsr_bundle *bundle = NULL;
    cr_assert_eq(tsr_bundle_open(&ctx, foreign, &strict, &bundle).code, TSR_CORRUPT);
    check_repack(foreign, canonical);
}
Test(tars, foreign_ustar) { check_foreign("ustar"); }
Test(tars, foreign_gnutar) { check_foreign("gnutar"); }
Test(tars, foreign_paxr) { check_foreign("paxr"); }

Test(tars, directory) {
    static const tsr_bundle_open_options strict = {.size_bytes = sizeof strict, .strict = true};
    tsr_ctx ctx = {0};
    member members[MEMBERS_MAX];
    char canonical[256], folder[256], path[400];
    snprintf(canonical, sizeof canonical, "%s", sample_path("canonical.tsb"));
    snprintf(folder, sizeof folder, "%s", sample_path("layout"));
    sample_must(&ctx, sample_write(&ctx, canonical, SAMPLE_LARGE, false));
    size_t count = read_members(canonical, members);
    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/blobs", folder);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/blobs/sha256", folder);
    mkdir(path, 0700);
    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%.99s", folder, members[i].name);
        sample_store(path, members[i].bytes, members[i].size);
    }
    tsr_bundle *bundle = NULL;
    cr_assert_eq(tsr_bundle_open(&ctx, folder, &strict, &bundle).code, TSR_CORRUPT);
    check_repack(folder, canonical);
    sample_must(&ctx, tsr_bundle_open(&ctx, folder, NULL, &bundle));
    cr_assert_eq(tsr_bundle_get_file_size(bundle), 0);
    tsr_bundle_close(&ctx, bundle);
    /* A blob that is a link to another file. */
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(symlink("/etc/passwd", path), 0);
    cr_assert_eq(tsr_bundle_open(&ctx, folder, NULL, &bundle).code, TSR_IO);
    cr_assert_eq(unlink(path) | mkdir(path, 0700), 0);
    cr_assert_eq(tsr_bundle_open(&ctx, folder, NULL, &bundle).code, TSR_CORRUPT);
    cr_assert(strstr(ctx.error.text, "is not a regular file"), "%s", ctx.error.text);
    for (size_t i = 0; i < count; i++) free(members[i].bytes);
}

/* A damaged blob is never written under the name of the output; repacking in place works. */
Test(tars, repack_refuses_damage) {
    tsr_ctx ctx = {0};
    size_t size;
    char path[256], out[256];
    snprintf(path, sizeof path, "%s", sample_path("damaged.tsb"));
    snprintf(out, sizeof out, "%s", sample_path("out.tsb"));
    sample_must(&ctx, sample_write(&ctx, path, SAMPLE_SMALL, false));
    sample_must(&ctx, tsr_bundle_repack(&ctx, path, path));
    unsigned char *bytes = sample_load(path, &size);
    bytes[size - 3000] ^= 1;
    sample_store(path, bytes, size);
    cr_assert_eq(tsr_bundle_repack(&ctx, path, out).code, TSR_CORRUPT);
    cr_assert(strstr(ctx.error.text, "digest of the blob at offset"), "%s", ctx.error.text);
    cr_assert_neq(access(out, F_OK), 0);
    tsr_bundle *bundle = NULL;
    tsr_bundle_verify_report report;
    sample_must(&ctx, tsr_bundle_open(&ctx, path, NULL, &bundle));
    cr_assert_eq(tsr_bundle_verify(&ctx, bundle, 2, &report).code, TSR_CORRUPT);
    tsr_bundle_close(&ctx, bundle);
    free(bytes);
}

/* ---- hostile archives: a good tiny bundle after a hostile member ---- */

typedef struct tar_case {
    const char *name;
    char type;
    uint64_t size;                /* stated in the header */
    const char *data;             /* or NULL */
    const char *magic_and_prefix; /* "g": GNU magic; else prefix; NULL: none */
    tsr_code code;
    const char *message;
} tar_case;

static const tar_case cases[] = {
    {"README", '0', 5, "hello", NULL, TSR_OK, NULL},
    {"some/folder", '5', 0, NULL, NULL, TSR_OK, NULL},
    {"sha256/readme", '0', 5, "hello", "blobs", TSR_OK, NULL},
    {"x", 'x', 19, "19 comment=abcdefg\n", NULL, TSR_OK, NULL},
    {"x", 'x', 31, "12 mtime=17\n19 comment=abcdefg\n", NULL, TSR_OK, NULL},
    {"index.json", '0', 5, "hello", NULL, TSR_CORRUPT, "'index.json' once"},
    {"./index.json", '0', 5, "hello", NULL, TSR_CORRUPT, "'index.json' once"},
    {"index.json", '0', 5, "hello", ".", TSR_CORRUPT, "'index.json' once"},
    {"index.json", '0', 5, "hello", "g.", TSR_CORRUPT, "'index.json' once"},
    {"./././oci-layout", '0', 5, "hello", NULL, TSR_CORRUPT, "'oci-layout' once"},
    {"link", '2', 0, NULL, NULL, TSR_CORRUPT, "type"},
    {"hard", '1', 0, NULL, NULL, TSR_CORRUPT, "type"},
    {"device", '3', 0, NULL, NULL, TSR_CORRUPT, "type"},
    {"fifo", '6', 0, NULL, NULL, TSR_CORRUPT, "type"},
    {"old", 0, 0, NULL, NULL, TSR_CORRUPT, "type"},
    {"global", 'g', 12, "12 mtime=17\n", NULL, TSR_CORRUPT, "type"},
    {"././@LongLink", 'L', 5, "hello", NULL, TSR_CORRUPT, "type"},
    {"folder", '5', 5, "hello", NULL, TSR_CORRUPT, "empty '5'"},
    {"huge", '0', 077777777777, NULL, NULL, TSR_CORRUPT, "member size"},
    {"x", 'x', 11, "11 path=ab\n", NULL, TSR_CORRUPT, "pax keyword"},
    {"x", 'x', 10, "10 size=9\n", NULL, TSR_CORRUPT, "pax keyword"},
    {"x", 'x', 19, "19 linkpath=abcdef\n", NULL, TSR_CORRUPT, "pax keyword"},
    {"x", 'x', 22, "22 GNU.sparse.major=1\n", NULL, TSR_CORRUPT, "pax keyword"},
    {"x", 'x', 12, "13 mtime=17\n", NULL, TSR_CORRUPT, "pax record"},
    {"x", 'x', 12, "11 mtime=17\n", NULL, TSR_CORRUPT, "pax record"},
    {"x", 'x', 12, "12 mtime=178", NULL, TSR_CORRUPT, "pax record"},
    {"x", 'x', 12, "12xmtime=17\n", NULL, TSR_CORRUPT, "pax record"},
    {"x", 'x', 12, "19 comment=abcdefg\n", NULL, TSR_CORRUPT, "pax record"},
    {"x", 'x', 12, "012 mtime=1\n", NULL, TSR_CORRUPT, "pax record"},
    {"x", 'x', 12, "0 mtime=178\n", NULL, TSR_CORRUPT, "pax record"},
    {"x", 'x', 12, "99999999999\n", NULL, TSR_CORRUPT, "pax record"},
    {"x", 'x', 12, "            ", NULL, TSR_CORRUPT, "pax record"},
    {"x", 'x', 3, "3 \n", NULL, TSR_CORRUPT, "pax record"},
    {"x", 'x', 12, "12 mtime 17\n", NULL, TSR_CORRUPT, "pax keyword"},
    {"x", 'x', 131073, NULL, NULL, TSR_CORRUPT, "member size"},
};

static void put_checksum(unsigned char *block) {
    unsigned sum = 0;
    char text[8];
    memset(block + 148, ' ', 8);
    for (size_t i = 0; i < 512; i++) sum += block[i];
    snprintf(text, sizeof text, "%06o", sum);
    memcpy(block + 148, text, 7);
}

static tsr_result open_bytes(tsr_ctx *ctx, const char *name, const void *bytes, size_t size) {
    tsr_bundle *bundle = NULL;
    char *path = sample_path(name);
    sample_store(path, bytes, size);
    tsr_result result = tsr_bundle_open(ctx, path, NULL, &bundle);
    if (!result.code) tsr_bundle_close(ctx, bundle);
    return result;
}

static void check_case(const tar_case *c, const unsigned char *good, size_t good_size) {
    tsr_ctx ctx = {0};
    size_t data = c->data ? 512 : 0, size = good_size + 512 + data;
    unsigned char *bytes = calloc(1, size);
    tsr_tar_format_header(bytes, c->name, c->type, c->size);
    const char *prefix = c->magic_and_prefix;
    if (prefix && prefix[0] == 'g') memcpy(bytes + 257, "ustar  ", 8);
    if (prefix) memcpy(bytes + 345, prefix, strlen(prefix));
    put_checksum(bytes);
    if (c->data) memcpy(bytes + 512, c->data, strlen(c->data));
    memcpy(bytes + 512 + data, good, good_size);
    tsr_result result = open_bytes(&ctx, "case.tsb", bytes, size);
    cr_assert_eq(result.code, c->code, "%s %c: expected %d, got %d: %s", c->name, c->type, c->code,
                 result.code, ctx.error.text);
    if (c->code)
        cr_assert(strstr(ctx.error.text, c->message), "%s: expected '%s', got '%s'", c->name,
                  c->message, ctx.error.text);
    free(bytes);
}

Test(tars, hostile) {
    tsr_ctx ctx = {0};
    size_t size;
    sample_must(&ctx, sample_write(&ctx, sample_path("good.tsb"), SAMPLE_TINY, false));
    unsigned char *good = sample_load(sample_path("good.tsb"), &size);
    for (size_t i = 0; i < TSR_COUNT(cases); i++) check_case(&cases[i], good, size);
    free(good);
}

/* Patches one header field of the first member and repairs its checksum. */
Test(tars, header_fields) {
    static const struct {
        size_t offset;
        const char *text, *message; /* no message: accepted */
    } patches[] = {{124, "0000000003 ", "oci-layout"},
                   {124, "0000000003x", "member size"},
                   {124, "-0000000036", "member size"},
                   {124, "\x80\0\0\0\0\0\0\0\0\0\0", "member size"},
                   {124, "           ", "member size"},
                   {124, "00000000036", NULL},
                   {124, "36 \0\0\0\0\0\0\0\0", NULL},
                   {257, "ustbr\0", "magic"},
                   {263, "01", "magic"},
                   {100, "0000777", NULL},
                   {136, "14412345670", NULL},
                   {265, "somebody", NULL},
                   {0, "oci-layouT", "got no 'oci-layout'"}};
    static const size_t sizes[] = {11, 11, 11, 11, 11, 11, 11, 6, 2, 7, 11, 8, 10};
    tsr_ctx ctx = {0};
    size_t size;
    sample_must(&ctx, sample_write(&ctx, sample_path("good.tsb"), SAMPLE_TINY, false));
    unsigned char *good = sample_load(sample_path("good.tsb"), &size);
    for (size_t i = 0; i < TSR_COUNT(patches); i++) {
        unsigned char *bytes = malloc(size);
        memcpy(bytes, good, size);
        memcpy(bytes + patches[i].offset, patches[i].text, sizes[i]);
        put_checksum(bytes);
        tsr_result result = open_bytes(&ctx, "patched.tsb", bytes, size);
        const char *message = patches[i].message;
        cr_assert_eq(result.code, message ? TSR_CORRUPT : TSR_OK, "patch %zu: got %d %s", i,
                     result.code, ctx.error.text);
        if (message) cr_assert(strstr(ctx.error.text, message), "%zu: %s", i, ctx.error.text);
        free(bytes);
    }
    good[100 + 6] ^= 1; /* changes the mode without updating the checksum */
    cr_assert_eq(open_bytes(&ctx, "patched.tsb", good, size).code, TSR_CORRUPT);
    cr_assert(strstr(ctx.error.text, "header checksum at offset 148 (entry oci-layout): expected"),
              "%s", ctx.error.text);
    memcpy(good + 148, "0066x6", 6);
    cr_assert_eq(open_bytes(&ctx, "patched.tsb", good, size).code, TSR_CORRUPT);
    cr_assert(strstr(ctx.error.text, "expected octal digits, got '0066x6"), "%s", ctx.error.text);
    free(good);
}

Test(tars, two_pax_headers_and_pax_at_the_end) {
    tsr_ctx ctx = {0};
    size_t size;
    sample_must(&ctx, sample_write(&ctx, sample_path("good.tsb"), SAMPLE_TINY, false));
    unsigned char *good = sample_load(sample_path("good.tsb"), &size);
    unsigned char *bytes = calloc(1, size + 2048), *pax = calloc(1, 1024);
    tsr_tar_format_header(pax, "x", 'x', 512);
    tsr_tar_format_pad(pax + 512, 512);
    memcpy(bytes, pax, 1024);
    memcpy(bytes + 1024, pax, 1024);
    memcpy(bytes + 2048, good, size);
    cr_assert_eq(open_bytes(&ctx, "two.tsb", bytes, size + 2048).code, TSR_CORRUPT);
    cr_assert(strstr(ctx.error.text, "after a pax header"), "%s", ctx.error.text);
    memcpy(bytes, good, size);
    memcpy(bytes + size - 1024, pax, 1024);
    memset(bytes + size, 0, 1024);
    cr_assert_eq(open_bytes(&ctx, "end.tsb", bytes, size + 1024).code, TSR_CORRUPT);
    cr_assert(strstr(ctx.error.text, "after a pax header"), "%s", ctx.error.text);
    free(good), free(bytes), free(pax);
}

/* The same blob twice; a single block of zeros; only zeros. */
Test(tars, duplicates_and_ends) {
    tsr_ctx ctx = {0};
    size_t size;
    sample_must(&ctx, sample_write(&ctx, sample_path("good.tsb"), SAMPLE_TINY, false));
    unsigned char *good = sample_load(sample_path("good.tsb"), &size);
    unsigned char *bytes = calloc(1, size + 1024);
    size_t blob = size - 1024 - 1024; /* the last member: header and one block */
    memcpy(bytes, good, size - 1024);
    memcpy(bytes + size - 1024, good + blob, 1024);
    cr_assert_eq(open_bytes(&ctx, "twice.tsb", bytes, size + 1024).code, TSR_CORRUPT);
    cr_assert(strstr(ctx.error.text, "each blob once"), "%s", ctx.error.text);
    cr_assert_eq(open_bytes(&ctx, "one.tsb", good, size - 512).code, TSR_CORRUPT);
    cr_assert_eq(open_bytes(&ctx, "none.tsb", good, size - 1024).code, TSR_CORRUPT);
    cr_assert(strstr(ctx.error.text, "two zero blocks"), "%s", ctx.error.text);
    memset(bytes, 0, size);
    cr_assert_eq(open_bytes(&ctx, "zeros.tsb", bytes, 2048).code, TSR_CORRUPT);
    cr_assert(strstr(ctx.error.text, "no 'oci-layout'"), "%s", ctx.error.text);
    free(good), free(bytes);
}

/* One of the two files has another name. */
Test(tars, no_marker_or_no_root) {
    static const char *const names[] = {"oci-layout", "index.json"};
    tsr_ctx ctx = {0};
    size_t size;
    sample_must(&ctx, sample_write(&ctx, sample_path("good.tsb"), SAMPLE_TINY, false));
    for (size_t i = 0; i < 2; i++) {
        char expected[32];
        unsigned char *bytes = sample_load(sample_path("good.tsb"), &size);
        unsigned char *header = bytes + i * 1024; /* the first two members have one block each */
        snprintf(expected, sizeof expected, "got no '%s'", names[i]);
        cr_assert_str_eq((const char *)header, names[i]);
        header[0] = 'X';
        put_checksum(header);
        cr_assert_eq(open_bytes(&ctx, "less.tsb", bytes, size).code, TSR_CORRUPT);
        cr_assert(strstr(ctx.error.text, expected), "%s", ctx.error.text);
        free(bytes);
    }
}

/* Zeros after the end: accepted up to the limit of 1 MiB; other bytes are not. */
Test(tars, tail) {
    tsr_ctx ctx = {0};
    size_t size, capacity = 1024 * 1024 + 512;
    sample_must(&ctx, sample_write(&ctx, sample_path("good.tsb"), SAMPLE_TINY, false));
    unsigned char *good = sample_load(sample_path("good.tsb"), &size);
    unsigned char *bytes = calloc(1, size + capacity);
    memcpy(bytes, good, size);
    size_t longest = size - 1024 + 1024 * 1024;
    sample_must(&ctx, open_bytes(&ctx, "tail.tsb", bytes, longest));
    cr_assert_eq(open_bytes(&ctx, "tail.tsb", bytes, longest + 512).code, TSR_CORRUPT);
    cr_assert(strstr(ctx.error.text, "1024 to 1048576 bytes, got 1049088"), "%s", ctx.error.text);
    static const size_t offsets[] = {512, 1023, 1024, 300000, 1024 * 1024 - 1};
    for (size_t i = 0; i < TSR_COUNT(offsets); i++) {
        bytes[size - 1024 + offsets[i]] = 1;
        cr_assert_eq(open_bytes(&ctx, "tail.tsb", bytes, longest).code, TSR_CORRUPT);
        cr_assert(strstr(ctx.error.text, "zeros, got other bytes"), "%s", ctx.error.text);
        bytes[size - 1024 + offsets[i]] = 0;
    }
    free(good), free(bytes);
}

Test(tars, pax_header_too_large) {
    enum { SIZE = 131072 + 512 };
    tsr_ctx ctx = {0};
    size_t size;
    sample_must(&ctx, sample_write(&ctx, sample_path("good.tsb"), SAMPLE_TINY, false));
    unsigned char *good = sample_load(sample_path("good.tsb"), &size);
    unsigned char *bytes = calloc(1, size + 512 + SIZE);
    tsr_tar_format_header(bytes, "x", 'x', 131072);
    tsr_tar_format_pad(bytes + 512, 131072);
    memcpy(bytes + 512 + 131072, good, size);
    sample_must(&ctx, open_bytes(&ctx, "pax.tsb", bytes, size + 512 + 131072));
    tsr_tar_format_header(bytes, "x", 'x', SIZE);
    tsr_tar_format_pad(bytes + 512, SIZE);
    memcpy(bytes + 512 + SIZE, good, size);
    cr_assert_eq(open_bytes(&ctx, "pax.tsb", bytes, size + 512 + SIZE).code, TSR_CORRUPT);
    cr_assert(strstr(ctx.error.text, "pax header size"), "%s", ctx.error.text);
    free(good), free(bytes);
}

/* 65,536 members in all are accepted, one more is not. */
Test(tars, too_many_members) {
    enum { MEMBERS = 65536, OWN = 10 };
    tsr_ctx ctx = {0};
    size_t size;
    sample_must(&ctx, sample_write(&ctx, sample_path("good.tsb"), SAMPLE_TINY, false));
    unsigned char *good = sample_load(sample_path("good.tsb"), &size);
    size_t extra = MEMBERS - OWN;
    unsigned char *bytes = malloc((extra + 1) * 512 + size);
    for (size_t i = 0; i <= extra; i++) tsr_tar_format_header(bytes + i * 512, "extra", '0', 0);
    memcpy(bytes + (extra + 1) * 512, good, size);
    sample_must(&ctx, open_bytes(&ctx, "many.tsb", bytes + 512, extra * 512 + size));
    cr_assert_eq(open_bytes(&ctx, "many.tsb", bytes, (extra + 1) * 512 + size).code, TSR_CORRUPT);
    cr_assert(strstr(ctx.error.text, "at most 65536"), "%s", ctx.error.text);
    free(good), free(bytes);
}
