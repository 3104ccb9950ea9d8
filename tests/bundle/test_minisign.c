/* SPDX-License-Identifier: Apache-2.0
 *
 * Signatures of minisign. Those in minisign/ were made by Debian's minisign 0.11 for the frozen
 * bundle tests/golden/format-1.0.tsb.
 */
#include "bundle/layout.h"
#include "bundle/sign.h"
#include "runtime/base/array.h"
#include "tests/bundle/sample.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VECTOR TESTS_FOLDER "/minisign/"
static const char public_key[] = VECTOR "minisign.pub";

typedef struct subject {
    char path[300], minisig[320], sigstore[320];
} subject;

/* A copy of the frozen bundle, with the signature file of that name next to it. */
static subject make_subject(const char *signature) {
    subject s;
    size_t size;
    snprintf(s.path, sizeof s.path, "%s", sample_path("m.tsb"));
    snprintf(s.minisig, sizeof s.minisig, "%s%s", s.path, TSR_MINISIGN_SUFFIX);
    snprintf(s.sigstore, sizeof s.sigstore, "%s%s", s.path, TSR_SIGNATURE_SUFFIX);
    void *bytes = sample_load(TESTS_FOLDER "/../golden/format-1.0.tsb", &size);
    sample_store(s.path, bytes, size);
    free(bytes);
    if (!signature) return s;
    bytes = sample_load(signature, &size);
    sample_store(s.minisig, bytes, size);
    free(bytes);
    return s;
}

static tsr_result check(tsr_ctx *ctx, const char *path, const char *const *keys, bool required,
                        tsr_signature_report *report) {
    tsr_signature_policy policy = {.size_bytes = sizeof policy, .keys = keys, .required = required};
    tsr_bundle *bundle = NULL;
    while (keys && keys[policy.key_count]) policy.key_count++;
    sample_must(ctx, tsr_bundle_open(ctx, path, NULL, &bundle));
    tsr_result result = tsr_signature_check(ctx, bundle, &policy, report);
    tsr_bundle_close(ctx, bundle);
    return result;
}

static void refuse(const char *path, const char *const *keys, const char *text) {
    tsr_ctx ctx = {0};
    tsr_signature_report report = {0};
    tsr_result result = check(&ctx, path, keys, false, &report);
    cr_assert_eq(result.code, TSR_SIGNATURE, "got %d: %s", result.code, ctx.error.text);
    cr_assert(strstr(ctx.error.text, text), "no '%s' in: %s", text, ctx.error.text);
}

static void expect(const char *path, const char *const *keys, tsr_signature_state state) {
    tsr_ctx ctx = {0};
    tsr_signature_report report = {0};
    tsr_result result = check(&ctx, path, keys, keys != NULL, &report);
    cr_assert_eq(result.code, TSR_OK, "%s", ctx.error.text);
    cr_assert_eq(report.state, state, "got %d", report.state);
}

static const char *const the_key[] = {public_key, NULL};

Test(minisign, vector) {
    subject s = make_subject(VECTOR "format-1.0.tsb.minisig");
    expect(s.path, the_key, TSR_SIGNATURE_GOOD);
    expect(s.path, NULL, TSR_SIGNATURE_UNCHECKED);
}

Test(minisign, legacy_algorithm) {
    subject s = make_subject(VECTOR "legacy.minisig");
    refuse(s.path, the_key, "sign again without -l");
    refuse(s.path, NULL, "sign again without -l");
}

/* Changes every bit and length, except of the untrusted comment, which no signature covers. */
Test(minisign, every_bit_and_length) {
    subject s = make_subject(VECTOR "format-1.0.tsb.minisig");
    size_t size;
    unsigned dead = 0;
    unsigned char *text = sample_load(s.minisig, &size);
    size_t comment = strlen("untrusted comment: ");
    size_t line = sample_find(text, size, "\n", 1);
    for (size_t bit = 0; bit < size * 8; bit++) {
        tsr_ctx ctx = {0};
        tsr_signature_report report = {0};
        bool covered = bit / 8 < comment || bit / 8 >= line;
        text[bit / 8] = (unsigned char)(text[bit / 8] ^ 1u << bit % 8);
        bool breaks = memchr(text, 0, line) || memchr(text, '\n', line);
        sample_store(s.minisig, text, size);
        text[bit / 8] = (unsigned char)(text[bit / 8] ^ 1u << bit % 8);
        tsr_result result = check(&ctx, s.path, the_key, true, &report);
        dead += !covered && !breaks;
        cr_assert_eq(result.code, covered || breaks ? TSR_SIGNATURE : TSR_OK, "bit %zu: %d %s", bit,
                     result.code, ctx.error.text);
    }
    cr_assert_gt(dead, 100);
    for (size_t length = 0; length < size; length++) {
        sample_store(s.minisig, text, length);
        refuse(s.path, the_key, s.minisig);
    }
    free(text);
}

Test(minisign, hostile_files) {
    static const struct {
        const char *find, *replace, *text;
    } edits[] = {
        {"untrusted comment: ", "comment: ", "four lines"},
        {"trusted comment: tessera", "trusted: tessera", "four lines"},
        {"tessera test vector", "tessera best vector", "the trusted comment is wrong"},
        {"tessera test vector", "", "the trusted comment is wrong"},
        {"tessera test vector\n", "tessera test vector\r\n", "the trusted comment is wrong"},
        {"==\n", "==\n\n", "four lines"},
        {"RUQ", "RUA", "expected the algorithm ED, got 0x4540"},
        {"RUQ", "RWQ", "sign again without -l"},
        {"\nRUQ", "\nRU", "Base64"},
        {"\nRUQ", "\n RUQ", "Base64"},
        {"\nRUQ", "\nAAAARUQ", "expected signatures of 74 and 64 bytes, got 77 and 64"},
    };
    for (size_t i = 0; i < TSR_COUNT(edits); i++) {
        subject s = make_subject(VECTOR "format-1.0.tsb.minisig");
        size_t size, find_size = strlen(edits[i].find), replace_size = strlen(edits[i].replace);
        char *text = sample_load(s.minisig, &size), changed[2048];
        size_t at = sample_find(text, size, edits[i].find, find_size);
        if (strcmp(edits[i].find, "trusted comment: tessera") == 0)
            at = sample_find(text, size, "\ntrusted comment: tessera", find_size + 1) + 1;
        memcpy(changed, text, at);
        memcpy(changed + at, edits[i].replace, replace_size);
        memcpy(changed + at + replace_size, text + at + find_size, size - at - find_size);
        sample_store(s.minisig, changed, size - find_size + replace_size);
        refuse(s.path, the_key, edits[i].text);
        free(text);
    }
}

/* The file was changed, but not its index: a signature of the file's bytes detects this. */
Test(minisign, another_file) {
    subject s = make_subject(VECTOR "format-1.0.tsb.minisig");
    size_t size;
    unsigned char *bytes = sample_load(s.path, &size);
    unsigned char *longer = calloc(1, size + 512);
    memcpy(longer, bytes, size);
    sample_store(s.path, longer, size + 512);
    refuse(s.path, the_key, "did not make it over");
    /* If another member comes first, the signed bytes do not begin with the index. */
    tsr_tar_format_header(longer, "README", '0', 0);
    memcpy(longer + 512, bytes, size);
    sample_store(s.path, longer, size + 512);
    refuse(s.path, the_key, "expected a canonical archive that begins with its index");
    free(bytes);
    free(longer);
}

Test(minisign, unpacked_bundle) {
    subject s = make_subject(NULL);
    char command[1200], folder[300], signature[340];
    snprintf(folder, sizeof folder, "%s", sample_path("dir"));
    mkdir(folder, 0700);
    snprintf(command, sizeof command, "tar xf '%s' -C '%s'", s.path, folder);
    if (system(command) != 0) cr_skip_test("no tar");
    snprintf(signature, sizeof signature, "%s%s", folder, TSR_MINISIGN_SUFFIX);
    size_t size;
    void *bytes = sample_load(VECTOR "format-1.0.tsb.minisig", &size);
    sample_store(signature, bytes, size);
    free(bytes);
    refuse(folder, the_key, "is a directory");
}

/* One good signature is sufficient; a wrong one next to a good one is refused. */
Test(minisign, beside_another_signature) {
    tsr_ctx ctx = {0};
    tsr_digest id;
    tsr_bundle *bundle = NULL;
    subject s = make_subject(VECTOR "format-1.0.tsb.minisig");
    char secret[300], open[300], other[300];
    snprintf(secret, sizeof secret, "%s", sample_path("p.pem"));
    snprintf(open, sizeof open, "%s", sample_path("p.pub"));
    sample_must(&ctx, tsr_signature_generate_key(&ctx, secret, open, &id));
    sample_must(&ctx, tsr_bundle_open(&ctx, s.path, NULL, &bundle));
    sample_must(&ctx, tsr_signature_write(&ctx, bundle, secret, &id));
    snprintf(other, sizeof other, "%s", sample_path("q.pub"));
    sample_must(&ctx, tsr_signature_generate_key(&ctx, sample_path("q.pem"), other, &id));
    tsr_bundle_close(&ctx, bundle);
    const char *const both[] = {public_key, open, NULL}, *const p256[] = {open, NULL},
                      *const stranger[] = {other, NULL};
    expect(s.path, both, TSR_SIGNATURE_GOOD);
    expect(s.path, p256, TSR_SIGNATURE_GOOD);
    expect(s.path, the_key, TSR_SIGNATURE_GOOD);
    refuse(s.path, stranger, "expected the one given");
    size_t size;
    char *text = sample_load(s.minisig, &size);
    text[sample_find(text, size, "\nRUQ", 4) + 40] ^= 1;
    sample_store(s.minisig, text, size);
    refuse(s.path, both, s.minisig);
    free(text);
    cr_assert_eq(unlink(s.sigstore), 0);
    refuse(s.path, p256, "signed by minisign key 616212eacda52c3c; expected the one given");
}

Test(minisign, key_files) {
    subject s = make_subject(VECTOR "format-1.0.tsb.minisig");
    static const char *const bad[] = {
        "untrusted comment: x\nRWQ8LKXN6hJiYXNwJqSok0xypDS607bhWfq9QmftsQTyKY4O2NdQWJU\n",
        "untrusted comment: x\nRUQ8LKXN6hJiYXNwJqSok0xypDS607bhWfq9QmftsQTyKY4O2NdQWJU6\n",
        "RWQ8LKXN6hJiYXNwJqSok0xypDS607bhWfq9QmftsQTyKY4O2NdQWJU6\n", "untrusted comment: x\n",
        "untrusted comment: x"};
    for (size_t i = 0; i < TSR_COUNT(bad); i++) {
        tsr_ctx ctx = {0};
        tsr_signature_report report = {0};
        const char *path = sample_path("bad.pub");
        const char *const keys[] = {path, NULL};
        sample_store(path, bad[i], strlen(bad[i]));
        tsr_result result = check(&ctx, s.path, keys, false, &report);
        cr_assert_eq(result.code, TSR_USAGE, "%zu: got %d: %s", i, result.code, ctx.error.text);
        cr_assert(strstr(ctx.error.text, "and no key of minisign"), "%s", ctx.error.text);
    }
}
