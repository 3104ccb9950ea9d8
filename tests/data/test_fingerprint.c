/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares fingerprints with hashes of whole arrays, with and without a thread, and tests the
 * cache.
 */
#include "runtime/data/array_file.h"
#include "runtime/data/fingerprint.h"
#include "runtime/data/fingerprint_cache.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LARGE = 9 * 1024 * 1024 + 12345, SMALL = 1000 };

static char folder[] = "/tmp/fingerprint-XXXXXX", small_path[64], large_path[64], cache_path[64];
static unsigned char *large;
static tsr_ctx ctx;

static void write_file(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    cr_assert(file && fwrite(bytes, 1, size, file) == size);
    fclose(file);
}

static void init(void) {
    cr_assert(mkdtemp(folder));
    snprintf(small_path, sizeof small_path, "%s/small.u8", folder);
    snprintf(large_path, sizeof large_path, "%s/large.u8", folder);
    snprintf(cache_path, sizeof cache_path, "%s/DATA", folder);
    large = malloc(LARGE);
    cr_assert(large);
    for (size_t i = 0; i < LARGE; i++) large[i] = (unsigned char)(i * 2654435761u >> 13);
    write_file(large_path, large, LARGE);
    write_file(small_path, large + 7, SMALL);
}
static void finish(void) {
    char command[128];
    free(large);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}
TestSuite(fingerprint, .init = init, .fini = finish);

static tsr_fingerprint *open_both(const tsr_fingerprint_options *options) {
    const tsr_fingerprint_array arrays[] = {{"y", large_path, TSR_DTYPE_UI8},
                                            {"a", small_path, TSR_DTYPE_UI8}};
    tsr_fingerprint *fingerprint = NULL;
    tsr_result result = tsr_fingerprint_open(&ctx, arrays, 2, options, &fingerprint);
    cr_assert_eq(result.code, TSR_OK, "%s", ctx.error.text);
    return fingerprint;
}

static void must_finish(tsr_fingerprint *fingerprint) {
    tsr_result result = tsr_fingerprint_finish(&ctx, fingerprint);
    cr_assert_eq(result.code, TSR_OK, "%s", ctx.error.text);
}

static void check_digests(const tsr_fingerprint *fingerprint) {
    tsr_digest first = tsr_hash_tree(large, LARGE), second = tsr_hash_tree(large + 7, SMALL);
    tsr_digest got = tsr_fingerprint_get_array(fingerprint, 0);
    cr_assert(tsr_digest_equal(&got, &first));
    got = tsr_fingerprint_get_array(fingerprint, 1);
    cr_assert(tsr_digest_equal(&got, &second));
    /* Sorted by name, regardless of the order of the arrays. */
    unsigned char text[15 + 8 + 2 * (8 + 1 + TSR_DIGEST_BYTES)], *at = text;
    memset(text, 0, sizeof text);
    memcpy(at, "tessera.data.1", 15);
    at[15] = 2;
    at += 23;
    at[0] = 1;
    at[8] = 'a';
    memcpy(at + 9, second.bytes, TSR_DIGEST_BYTES);
    at += 9 + TSR_DIGEST_BYTES;
    at[0] = 1;
    at[8] = 'y';
    memcpy(at + 9, first.bytes, TSR_DIGEST_BYTES);
    tsr_digest whole = tsr_hash(text, sizeof text), all = tsr_fingerprint_get(fingerprint);
    cr_assert(tsr_digest_equal(&whole, &all));
}

Test(fingerprint, is_the_same_with_and_without_a_thread) {
    for (int beside = 0; beside <= 2; beside++) {
        tsr_fingerprint *fingerprint = open_both(&(tsr_fingerprint_options){0});
        cr_assert_eq(tsr_fingerprint_get_bytes(fingerprint), LARGE + SMALL);
        for (int i = 0; i < beside; i++) tsr_fingerprint_begin(&ctx, fingerprint);
        must_finish(fingerprint);
        must_finish(fingerprint);
        check_digests(fingerprint);
        tsr_fingerprint_close(&ctx, fingerprint);
    }
    tsr_fingerprint *left = open_both(&(tsr_fingerprint_options){0});
    tsr_fingerprint_begin(&ctx, left);
    tsr_fingerprint_close(&ctx, left); /* while it is hashing */
    tsr_fingerprint_close(&ctx, NULL);
}

Test(fingerprint, a_file_that_changes_while_it_is_hashed_is_refused) {
    tsr_fingerprint *fingerprint = open_both(&(tsr_fingerprint_options){0});
    int fd = open(small_path, O_WRONLY | O_APPEND);
    cr_assert_eq(write(fd, "x", 1), 1);
    close(fd);
    cr_assert_eq(tsr_fingerprint_finish(&ctx, fingerprint).code, TSR_DATA);
    cr_assert(strstr(ctx.error.text, "changed while it was hashed"), "%s", ctx.error.text);
    cr_assert(strstr(ctx.error.text, "1000 bytes") && strstr(ctx.error.text, "1001"));
    tsr_fingerprint_close(&ctx, fingerprint);
}

/* A run begins regardless of the amount of data, and the error is reported at the first save. */
Test(fingerprint, what_cannot_be_hashed_is_told_by_finish) {
    for (int is_large = 0; is_large < 2; is_large++) {
        const tsr_fingerprint_array array = {"y", is_large ? large_path : small_path,
                                             TSR_DTYPE_UI8};
        tsr_fingerprint *fingerprint = NULL;
        cr_assert_eq(
            tsr_fingerprint_open(&ctx, &array, 1, &(tsr_fingerprint_options){0}, &fingerprint).code,
            TSR_OK);
        cr_assert_eq(truncate(array.spec, 10), 0);
        tsr_fingerprint_begin(&ctx, fingerprint);
        for (int again = 0; again < 2; again++)
            cr_assert_neq(tsr_fingerprint_finish(&ctx, fingerprint).code, TSR_OK);
        cr_assert(strstr(ctx.error.text, array.spec), "%s", ctx.error.text);
        tsr_fingerprint_close(&ctx, fingerprint);
    }
}

Test(fingerprint, only_settled_files_are_cached) {
    const tsr_fingerprint_options cached = {.cache_path = cache_path, .writes_cache = true};
    tsr_fingerprint *fingerprint = open_both(&cached);
    must_finish(fingerprint);
    tsr_fingerprint_write_cache(&ctx, fingerprint);
    tsr_fingerprint_close(&ctx, fingerprint);
    cr_assert_neq(access(cache_path, F_OK), 0, "they have just changed");
    sleep(3);
    fingerprint = open_both(&cached);
    cr_assert_eq(tsr_fingerprint_get_bytes(fingerprint), LARGE + SMALL);
    must_finish(fingerprint);
    tsr_fingerprint_write_cache(&ctx, fingerprint);
    tsr_fingerprint_close(&ctx, fingerprint);
    fingerprint = open_both(&cached);
    cr_assert_eq(tsr_fingerprint_get_bytes(fingerprint), 0, "nothing is left to be hashed");
    must_finish(fingerprint);
    check_digests(fingerprint);
    tsr_fingerprint_close(&ctx, fingerprint);
    fingerprint =
        open_both(&(tsr_fingerprint_options){.cache_path = cache_path, .ignores_cache = true});
    cr_assert_eq(tsr_fingerprint_get_bytes(fingerprint), LARGE + SMALL);
    tsr_fingerprint_close(&ctx, fingerprint);
    /* The same bytes with a different time stamp are hashed again. */
    write_file(small_path, large + 7, SMALL);
    fingerprint = open_both(&cached);
    cr_assert_eq(tsr_fingerprint_get_bytes(fingerprint), SMALL);
    tsr_fingerprint_close(&ctx, fingerprint);
}

static tsr_file_state state_number(uint64_t number) {
    struct stat about = {.st_size = (off_t)number, .st_ino = (ino_t)(number / 2)};
    return tsr_file_state_of(&about, number % 2 ? ":member" : "");
}

Test(fingerprint, the_cache_keeps_the_newest) {
    tsr_digest found;
    for (uint64_t i = 0; i < 300; i++) {
        tsr_fingerprint_known known = {state_number(i), tsr_hash(&i, sizeof i)};
        cr_assert_eq(tsr_fingerprint_cache_add(&ctx, cache_path, &known, 1).code, TSR_OK, "%s",
                     ctx.error.text);
    }
    for (uint64_t i = 0; i < 300; i++) {
        tsr_file_state state = state_number(i);
        tsr_digest expected = tsr_hash(&i, sizeof i);
        bool known = tsr_fingerprint_cache_find(&ctx, cache_path, &state, &found);
        cr_assert_eq(known, i >= 300 - 256, "%u", (unsigned)i);
        cr_assert(!known || tsr_digest_equal(&found, &expected));
    }
    /* Each file has only one digest. */
    tsr_fingerprint_known again = {state_number(298), tsr_hash("new", 3)};
    again.state.mtime_ns = 5;
    cr_assert_eq(tsr_fingerprint_cache_add(&ctx, cache_path, &again, 1).code, TSR_OK);
    cr_assert(tsr_fingerprint_cache_find(&ctx, cache_path, &again.state, &found));
    tsr_file_state old = state_number(298);
    cr_assert(!tsr_fingerprint_cache_find(&ctx, cache_path, &old, &found));
    old = state_number(299);
    cr_assert(tsr_fingerprint_cache_find(&ctx, cache_path, &old, &found), "another member");
}

/* Every truncation and every changed byte makes the cache ignored; the next addition replaces
 * it. */
Test(fingerprint, a_damaged_cache_is_ignored) {
    char bytes[1024];
    tsr_digest found;
    tsr_fingerprint_known known[] = {{state_number(2), tsr_hash("a", 1)},
                                     {state_number(4), tsr_hash("b", 1)}};
    cr_assert_eq(tsr_fingerprint_cache_add(&ctx, cache_path, known, 2).code, TSR_OK);
    FILE *file = fopen(cache_path, "rb");
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    cr_assert_gt(size, 200);
    for (size_t i = 0; i < size; i++) {
        write_file(cache_path, bytes, i);
        cr_assert(!tsr_fingerprint_cache_find(&ctx, cache_path, &known[0].state, &found));
        bytes[i] ^= 1;
        write_file(cache_path, bytes, size);
        bool last = i + 1 == size; /* its newline is optional */
        cr_assert(last || !tsr_fingerprint_cache_find(&ctx, cache_path, &known[1].state, &found));
        bytes[i] ^= 1;
    }
    cr_assert_eq(tsr_fingerprint_cache_add(&ctx, cache_path, known, 1).code, TSR_OK);
    cr_assert(tsr_fingerprint_cache_find(&ctx, cache_path, &known[0].state, &found));
    cr_assert(tsr_digest_equal(&found, &known[0].digest));
    cr_assert_eq(unlink(cache_path), 0);
    cr_assert_eq(mkdir(cache_path, 0755), 0);
    cr_assert_neq(tsr_fingerprint_cache_add(&ctx, cache_path, known, 1).code, TSR_OK);
    cr_assert(!tsr_fingerprint_cache_find(&ctx, cache_path, &known[0].state, &found));
}
