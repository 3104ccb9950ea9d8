/* SPDX-License-Identifier: Apache-2.0
 *
 * Signatures next to a bundle: which are trusted, and which are refused.
 */
#include "bundle/limits.h"
#include "bundle/sign.h"
#include "runtime/base/array.h"
#include "tests/base/sweep.h"
#include "tests/bundle/sample.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_CHARS = 300 };

typedef struct key_pair {
    char secret[PATH_CHARS], open[PATH_CHARS];
    tsr_digest id;
} key_pair;

static key_pair make_key(const char *name) {
    tsr_ctx ctx = {0};
    key_pair pair;
    snprintf(pair.secret, sizeof pair.secret, "%s.pem", sample_path(name));
    snprintf(pair.open, sizeof pair.open, "%s.pub", sample_path(name));
    sample_must(&ctx, tsr_signature_generate_key(&ctx, pair.secret, pair.open, &pair.id));
    return pair;
}

/* A bundle at `path` and its signature at `signature`. */
typedef struct subject {
    char path[PATH_CHARS], signature[PATH_CHARS + 16];
} subject;

static subject make_subject(const char *name, sample_size size) {
    tsr_ctx ctx = {0};
    subject made;
    snprintf(made.path, sizeof made.path, "%s", sample_path(name));
    snprintf(made.signature, sizeof made.signature, "%s%s", made.path, TSR_SIGNATURE_SUFFIX);
    sample_must(&ctx, sample_write(&ctx, made.path, size, false));
    return made;
}

static void sign_with(const subject *of, const key_pair *key) {
    tsr_ctx ctx = {0};
    tsr_bundle *bundle = NULL;
    tsr_digest id;
    sample_must(&ctx, tsr_bundle_open(&ctx, of->path, NULL, &bundle));
    sample_must(&ctx, tsr_signature_write(&ctx, bundle, key->secret, &id));
    tsr_bundle_close(&ctx, bundle);
    cr_assert(tsr_digest_equal(&id, &key->id));
}

/* `keys` ends with NULL. */
static tsr_result check(tsr_ctx *ctx, const char *path, const char *const *keys, bool required,
                        tsr_signature_report *out_report) {
    tsr_signature_policy policy = {.size_bytes = sizeof policy, .keys = keys, .required = required};
    tsr_bundle *bundle = NULL;
    while (keys && keys[policy.key_count]) policy.key_count++;
    sample_must(ctx, tsr_bundle_open(ctx, path, NULL, &bundle));
    tsr_result result = tsr_signature_check(ctx, bundle, &policy, out_report);
    tsr_bundle_close(ctx, bundle);
    return result;
}

static void expect(const subject *of, const char *const *keys, bool required,
                   tsr_signature_state state) {
    tsr_ctx ctx = {0};
    tsr_signature_report report = {0};
    tsr_result result = check(&ctx, of->path, keys, required, &report);
    cr_assert_eq(result.code, TSR_OK, "%s", ctx.error.text);
    cr_assert_eq(report.state, state, "got %d", report.state);
}

static void refuse(const subject *of, const char *const *keys, bool required, tsr_code code,
                   const char *text) {
    tsr_ctx ctx = {0};
    tsr_signature_report report = {0};
    tsr_result result = check(&ctx, of->path, keys, required, &report);
    cr_assert_eq(result.code, code, "got %d: %s", result.code, ctx.error.text);
    cr_assert(strstr(ctx.error.text, text), "no '%s' in: %s", text, ctx.error.text);
}

Test(signatures, signed_and_verified) {
    tsr_ctx ctx = {0};
    tsr_signature_report report = {0};
    key_pair key = make_key("a");
    subject bundle = make_subject("a.tsb", SAMPLE_TINY);
    const char *const keys[] = {key.open, NULL};
    sign_with(&bundle, &key);
    sample_must(&ctx, check(&ctx, bundle.path, keys, true, &report));
    cr_assert_eq(report.state, TSR_SIGNATURE_GOOD);
    cr_assert(tsr_digest_equal(&report.key_id, &key.id));
    expect(&bundle, keys, false, TSR_SIGNATURE_GOOD);
    /* Each signature differs; all are good. */
    size_t size, size_again;
    char *first = sample_load(bundle.signature, &size);
    sign_with(&bundle, &key);
    char *again = sample_load(bundle.signature, &size_again);
    cr_assert(size != size_again || memcmp(first, again, size) != 0);
    expect(&bundle, keys, true, TSR_SIGNATURE_GOOD);
    free(first);
    free(again);
}

Test(signatures, unpacked_bundle) {
    char command[4 * PATH_CHARS];
    key_pair key = make_key("a");
    subject bundle = make_subject("a.tsb", SAMPLE_TINY), folder;
    const char *const keys[] = {key.open, NULL};
    snprintf(folder.path, sizeof folder.path, "%s/", sample_path("dir"));
    mkdir(folder.path, 0700);
    snprintf(command, sizeof command, "tar xf '%s' -C '%s'", bundle.path, folder.path);
    if (system(command) != 0) cr_skip_test("no tar");
    sign_with(&folder, &key);
    cr_assert_eq(access(sample_path("dir" TSR_SIGNATURE_SUFFIX), F_OK), 0);
    expect(&folder, keys, true, TSR_SIGNATURE_GOOD);
    /* The index is the same, so the signature is the same. */
    cr_assert_eq(rename(sample_path("dir" TSR_SIGNATURE_SUFFIX), bundle.signature), 0);
    expect(&bundle, keys, true, TSR_SIGNATURE_GOOD);
}

static unsigned warnings;
static void count_warning(void *user, tsr_log_level level, const char *text) {
    (void)user;
    cr_assert_eq(level, TSR_LOG_WARNING);
    cr_assert(strstr(text, "is not signed"), "%s", text);
    warnings++;
}

Test(signatures, missing) {
    tsr_ctx ctx = {.log = count_warning, .log_level = TSR_LOG_WARNING};
    tsr_signature_report report = {.state = TSR_SIGNATURE_GOOD};
    key_pair key = make_key("a");
    subject bundle = make_subject("a.tsb", SAMPLE_TINY);
    const char *const keys[] = {key.open, NULL};
    sample_must(&ctx, check(&ctx, bundle.path, NULL, false, &report));
    cr_assert_eq(report.state, TSR_SIGNATURE_ABSENT);
    cr_assert_eq(warnings, 0);
    sample_must(&ctx, check(&ctx, bundle.path, keys, false, &report));
    cr_assert_eq(report.state, TSR_SIGNATURE_ABSENT);
    cr_assert_eq(warnings, 1);
    refuse(&bundle, keys, true, TSR_SIGNATURE, "expected a signature in");
    refuse(&bundle, NULL, true, TSR_USAGE, "no key");
}

Test(signatures, no_key_to_check_with) {
    key_pair key = make_key("a");
    subject bundle = make_subject("a.tsb", SAMPLE_TINY),
            other = make_subject("b.tsb", SAMPLE_SMALL);
    sign_with(&bundle, &key);
    expect(&bundle, NULL, false, TSR_SIGNATURE_UNCHECKED);
    cr_assert_eq(rename(bundle.signature, other.signature), 0);
    refuse(&other, NULL, false, TSR_SIGNATURE, "signs another bundle");
}

Test(signatures, another_bundle) {
    key_pair key = make_key("a");
    subject bundle = make_subject("a.tsb", SAMPLE_TINY),
            other = make_subject("b.tsb", SAMPLE_SMALL);
    const char *const keys[] = {key.open, NULL};
    sign_with(&bundle, &key);
    cr_assert_eq(rename(bundle.signature, other.signature), 0);
    refuse(&other, keys, false, TSR_SIGNATURE, "signs another bundle");
}

Test(signatures, rotated_keys) {
    key_pair old = make_key("old"), new = make_key("new"), other = make_key("other");
    subject bundle = make_subject("a.tsb", SAMPLE_TINY);
    const char *const only_old[] = {old.open, NULL}, *const only_new[] = {new.open, NULL},
                      *const both[] = {old.open, new.open, NULL},
                      *const swapped[] = {new.open, old.open, NULL},
                      *const strange[] = {other.open, NULL};
    sign_with(&bundle, &old);
    expect(&bundle, only_old, true, TSR_SIGNATURE_GOOD);
    expect(&bundle, both, true, TSR_SIGNATURE_GOOD);
    expect(&bundle, swapped, true, TSR_SIGNATURE_GOOD);
    refuse(&bundle, only_new, false, TSR_SIGNATURE, "expected the one given");
    sign_with(&bundle, &new);
    expect(&bundle, both, true, TSR_SIGNATURE_GOOD);
    expect(&bundle, swapped, true, TSR_SIGNATURE_GOOD);
    refuse(&bundle, only_old, false, TSR_SIGNATURE, "expected the one given");
    refuse(&bundle, strange, true, TSR_SIGNATURE, "signed by key sha256:");
}

/* ---- damaged files ---- */

/* Replaces `find` with `replace` in the signature file. */
static void edit(const subject *of, const char *find, const char *replace) {
    size_t size;
    char *text = sample_load(of->signature, &size);
    size_t at = sample_find(text, size, find, strlen(find)), rest = at + strlen(find);
    char *changed = malloc(size + strlen(replace));
    memcpy(changed, text, at);
    memcpy(changed + at, replace, strlen(replace));
    memcpy(changed + at + strlen(replace), text + rest, size - rest);
    sample_store(of->signature, changed, size - strlen(find) + strlen(replace));
    free(text);
    free(changed);
}

Test(signatures, every_bit_and_length) {
    key_pair key = make_key("a");
    subject bundle = make_subject("a.tsb", SAMPLE_TINY);
    const char *const keys[] = {key.open, NULL};
    tsr_ctx ctx = {0};
    tsr_bundle *opened = NULL;
    tsr_signature_report report;
    tsr_signature_policy policy = {.size_bytes = sizeof policy, .keys = keys, .key_count = 1};
    size_t size;
    sign_with(&bundle, &key);
    sample_must(&ctx, tsr_bundle_open(&ctx, bundle.path, NULL, &opened));
    char *text = sample_load(bundle.signature, &size);
    sample_must(&ctx, tsr_signature_check(&ctx, opened, &policy, &report));
    for (size_t bit = 0; bit < size * 8; bit += SWEEP_STEP(5)) {
        text[bit / 8] = (char)(text[bit / 8] ^ (1 << bit % 8));
        sample_store(bundle.signature, text, size);
        text[bit / 8] = (char)(text[bit / 8] ^ (1 << bit % 8));
        tsr_result result = tsr_signature_check(&ctx, opened, &policy, &report);
        cr_assert_eq(result.code, TSR_SIGNATURE, "bit %zu: got %d: %s", bit, result.code,
                     ctx.error.text);
    }
    for (size_t length = 0; length < size; length += SWEEP_STEP(5)) {
        sample_store(bundle.signature, text, length);
        tsr_result result = tsr_signature_check(&ctx, opened, &policy, &report);
        cr_assert_eq(result.code, TSR_SIGNATURE, "length %zu: got %d", length, result.code);
    }
    sample_store(bundle.signature, text, size);
    sample_must(&ctx, tsr_signature_check(&ctx, opened, &policy, &report));
    free(text);
    tsr_bundle_close(&ctx, opened);
}

Test(signatures, somebody_else_under_the_same_name) {
    key_pair key = make_key("a"), thief = make_key("thief");
    subject bundle = make_subject("a.tsb", SAMPLE_TINY);
    const char *const keys[] = {key.open, NULL};
    char ours[45], theirs[45]; /* Base64 of the identities */
    EVP_EncodeBlock((unsigned char *)ours, key.id.bytes, TSR_DIGEST_BYTES);
    EVP_EncodeBlock((unsigned char *)theirs, thief.id.bytes, TSR_DIGEST_BYTES);
    sign_with(&bundle, &thief);
    edit(&bundle, theirs, ours);
    refuse(&bundle, keys, false, TSR_SIGNATURE, "the signature is wrong");
    edit(&bundle, ours, "AAAA");
    refuse(&bundle, keys, false, TSR_SIGNATURE, "member 'hint': expected 32 bytes, got 3");
}

Test(signatures, hostile_files) {
    static const struct {
        const char *find, *replace, *text;
    } edits[] = {
        {"bundle.v0.3+json", "bundle.v9.9+json", "member 'mediaType': expected"},
        {"in-toto+json", "in-toto", "member 'payloadType': expected"},
        {"{\"mediaType\"", "{\"mediaType\":\"x\",\"mediaType\"", "mediaType"},
        {"\"signatures\":[{", "\"signatures\":[{\"sig\":\"AAAA\"},{",
         "expected 1 signature, got 2"},
        {"\"signatures\":[{", "\"signatures\":[],\"x\":[{", "expected 1 signature, got 0"},
        {"\"signatures\":[{", "\"signatures\":[7],\"x\":[{", "expected an object"},
        {"\"sig\":\"", "\"sig\":\"\",\"x\":\"", "the signature is wrong"},
        {"\"sig\":\"", "\"sig\":\"\\n", "Base64"},
        {"\"sig\":\"", "\"sig\":\"A===\",\"x\":\"", "Base64"},
        {"\"sig\":\"", "\"sig\":\"AB==\",\"x\":\"", "Base64"},
        {"\"sig\":\"", "\"sig\":\"AA-_\",\"x\":\"", "Base64"},
        {"\"hint\":\"", "\"hint\":1,\"x\":\"", "expected a string"},
        {"\"payload\":\"", "\"payload\":\"\",\"x\":\"", "the signature is wrong"},
        {"\"dsseEnvelope\":{", "\"dsseEnvelope\":[],\"x\":{", "expected an object"},
        {"]}}", "]}}{", "offset"},
        {"]}}", "],\"y\":[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]}}", "depth"},
    };
    key_pair key = make_key("a");
    subject bundle = make_subject("a.tsb", SAMPLE_TINY);
    const char *const keys[] = {key.open, NULL};
    for (size_t i = 0; i < TSR_COUNT(edits); i++) {
        sign_with(&bundle, &key);
        edit(&bundle, edits[i].find, edits[i].replace);
        refuse(&bundle, keys, false, TSR_SIGNATURE, edits[i].text);
    }
    char *large = calloc(1, TSR_SIGNATURE_FILE_BYTES_MAX + 1);
    sample_store(bundle.signature, large, TSR_SIGNATURE_FILE_BYTES_MAX + 1);
    free(large);
    refuse(&bundle, keys, false, TSR_SIGNATURE, "at most 1048576 bytes, got 1048577");
    unlink(bundle.signature);
    mkdir(bundle.signature, 0700);
    refuse(&bundle, keys, false, TSR_IO, "is a directory");
    rmdir(bundle.signature);
    mkfifo(bundle.signature, 0600);
    refuse(&bundle, keys, false, TSR_IO, "not a regular file");
}

/* ---- keys ---- */

Test(signatures, key_files) {
    struct stat info;
    tsr_ctx ctx = {0};
    tsr_digest id;
    key_pair key = make_key("a");
    subject bundle = make_subject("a.tsb", SAMPLE_TINY);
    const char *const secret[] = {key.secret, NULL}, *const none[] = {"/nonexistent.pub", NULL},
                      *const last[] = {key.open, "/dev/null", NULL};
    cr_assert_eq(stat(key.secret, &info), 0);
    cr_assert_eq(info.st_mode & 0777, 0600);
    /* Keys are read even if there is no signature to check. */
    refuse(&bundle, secret, false, TSR_USAGE, "holds no public key");
    refuse(&bundle, none, false, TSR_IO, "No such file");
    refuse(&bundle, last, false, TSR_IO, "/dev/null");
    cr_assert_eq(tsr_signature_generate_key(&ctx, key.secret, "/nonexistent/b", &id).code, TSR_IO);
    cr_assert(strstr(ctx.error.text, "File exists"), "%s", ctx.error.text);
    char *fresh = sample_path("fresh.pem");
    cr_assert_eq(tsr_signature_generate_key(&ctx, fresh, key.open, &id).code, TSR_IO);
    cr_assert_eq(access(fresh, F_OK), -1, "a private key without its public one is left");
    sign_with(&bundle, &key); /* restores the files */
    tsr_bundle *opened = NULL;
    sample_must(&ctx, tsr_bundle_open(&ctx, bundle.path, NULL, &opened));
    cr_assert_eq(tsr_signature_write(&ctx, opened, key.open, &id).code, TSR_USAGE);
    cr_assert(strstr(ctx.error.text, "holds no private key"), "%s", ctx.error.text);
    tsr_bundle_close(&ctx, opened);
}

Test(signatures, too_many_keys) {
    const char *keys[TSR_SIGNATURE_KEYS_MAX + 2] = {NULL};
    key_pair key = make_key("a");
    subject bundle = make_subject("a.tsb", SAMPLE_TINY);
    for (size_t i = 0; i < TSR_SIGNATURE_KEYS_MAX + 1; i++) keys[i] = key.open;
    sign_with(&bundle, &key);
    refuse(&bundle, keys, false, TSR_USAGE, "65 keys are given; at most 64");
    keys[TSR_SIGNATURE_KEYS_MAX] = NULL;
    expect(&bundle, keys, true, TSR_SIGNATURE_GOOD);
}

/* ---- failing operations ---- */

static tsr_io faulty;
static long operations, fail_at;
static bool fails(void) { return operations++ == fail_at; }
static int faulty_open(void *self, int dir, const char *path, int flags, mode_t mode) {
    return fails() ? -EACCES : tsr_io_system()->open(self, dir, path, flags, mode);
}
static ssize_t faulty_pread(void *self, int fd, void *bytes, size_t size, off_t offset) {
    return fails() ? -EIO : tsr_io_system()->pread(self, fd, bytes, size, offset);
}
static ssize_t faulty_pwrite(void *self, int fd, const void *bytes, size_t size, off_t offset) {
    return fails() ? -ENOSPC : tsr_io_system()->pwrite(self, fd, bytes, size, offset);
}
static int faulty_fsync(void *self, int fd) {
    return fails() ? -EIO : tsr_io_system()->fsync(self, fd);
}
static int faulty_fstat(void *self, int fd, struct stat *out_stat) {
    return fails() ? -EIO : tsr_io_system()->fstat(self, fd, out_stat);
}

/* The n-th operation fails, for all n: the result is an error, never a verdict, and no half of a
 * key pair remains. */
Test(signatures, every_operation_fails) {
    key_pair key = make_key("a");
    subject bundle = make_subject("a.tsb", SAMPLE_TINY);
    const char *const keys[] = {key.open, NULL};
    tsr_signature_policy policy = {.size_bytes = sizeof policy, .keys = keys, .key_count = 1};
    tsr_signature_report report;
    tsr_ctx ctx = {0}, failing = {.io = &faulty};
    tsr_bundle *opened = NULL;
    tsr_digest id;
    char fresh[2][PATH_CHARS];
    tsr_result result = {TSR_IO};
    faulty = *tsr_io_system();
    faulty.open = faulty_open;
    faulty.pread = faulty_pread;
    faulty.pwrite = faulty_pwrite;
    faulty.fsync = faulty_fsync;
    faulty.fstat = faulty_fstat;
    sign_with(&bundle, &key);
    sample_must(&ctx, tsr_bundle_open(&ctx, bundle.path, NULL, &opened));
    for (fail_at = 0; result.code; fail_at++) {
        operations = 0;
        result = tsr_signature_check(&failing, opened, &policy, &report);
        cr_assert(result.code == TSR_IO || operations <= fail_at, "operation %ld", fail_at);
    }
    cr_assert_geq(fail_at, 6);
    tsr_bundle_close(&ctx, opened);
    snprintf(fresh[0], PATH_CHARS, "%s", sample_path("fresh.pem"));
    snprintf(fresh[1], PATH_CHARS, "%s", sample_path("fresh.pub"));
    result = (tsr_result){TSR_IO};
    for (fail_at = 0; result.code; fail_at++) {
        operations = 0;
        result = tsr_signature_generate_key(&failing, fresh[0], fresh[1], &id);
        if (!result.code) break;
        cr_assert_eq(result.code, TSR_IO, "operation %ld", fail_at);
        cr_assert(access(fresh[0], F_OK) && access(fresh[1], F_OK), "operation %ld", fail_at);
    }
    cr_assert_geq(fail_at, 6);
}
