/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the parsers of signature files. The first byte selects the kind: Sigstore bundle or
 * minisign. An accepted input has the stated lengths, and only one form: parsing it again gives the
 * same result.
 */
#include "bundle/trust/dsse.h"
#include "bundle/trust/minisign.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static const char sigstore[] =
    "{\"mediaType\":\"application/vnd.dev.sigstore.bundle.v0.3+json\",\"verificationMaterial\":{"
    "\"publicKey\":{\"hint\":\"Kt5eMUVpxpEzk9YXb0hlYRSMKoHKjCVfHNLqNwwUr0w=\"}},\"dsseEnvelope\":{"
    "\"payload\":\"e30=\",\"payloadType\":\"application/"
    "vnd.in-toto+json\",\"signatures\":[{\"sig\":"
    "\"MEUCIQ==\"}]}}";
static const char minisign[] =
    "untrusted comment: signature from minisign secret key\n"
    "RUQ8LKXN6hJiYXC8xqmJcyFMRbLlEN8SKFz7E6Nhm9qWeitzfx51U6z9W0KFI8VdOY3//"
    "FHWmueM3ri5VFZTc4i7MLygrEaufwU=\n"
    "trusted comment: a comment\n"
    "aS7QsJBDYTrB5r9H8EOnXvFbn/p1ZhQUhd9zaNM0r7DrRl9BU20ivGG7M+HdCdBK6QDIqB6+fQ2m2qITmBtNDQ==\n";
static const char public_key[] = "untrusted comment: minisign public key 616212EACDA52C3C\n"
                                 "RWQ8LKXN6hJiYXNwJqSok0xypDS607bhWfq9QmftsQTyKY4O2NdQWJU6\n";

enum { KINDS = 3 };

static void seed(const char *folder) {
    static const struct {
        const char *text;
        size_t size;
    } seeds[KINDS] = {{sigstore, sizeof sigstore - 1},
                      {minisign, sizeof minisign - 1},
                      {public_key, sizeof public_key - 1}};
    uint8_t bytes[1024];
    for (unsigned i = 0; i < KINDS; i++) {
        bytes[0] = (uint8_t)i;
        memcpy(bytes + 1, seeds[i].text, seeds[i].size);
        fuzz_put(folder, i, bytes, 1 + seeds[i].size);
    }
}

static bool run_sigstore(tsr_ctx *ctx, const uint8_t *bytes, size_t size, tsr_arena *arena) {
    tsr_dsse envelope = {0};
    tsr_buffer signed_bytes = {0};
    tsr_result result = tsr_dsse_parse(ctx, "fuzz", bytes, size, arena, &envelope);
    if (!result.code) {
        result = tsr_dsse_encode(ctx, envelope.payload, envelope.payload_size, &signed_bytes);
        fuzz_require(result.code || signed_bytes.size_bytes > envelope.payload_size,
                     "the payload in what is signed");
    }
    tsr_buffer_finish(&signed_bytes);
    fuzz_require(!result.code || result.code == TSR_SIGNATURE || fuzz_faults,
                 "the code of refusal");
    /* The JSON scan names the offset of its error. */
    return !result.code || !strstr(ctx->error.text, ": offset ");
}

static bool run_minisign(tsr_ctx *ctx, const uint8_t *bytes, size_t size, tsr_arena *arena) {
    tsr_minisign file;
    tsr_result result = tsr_minisign_parse(ctx, "fuzz", bytes, size, arena, &file);
    fuzz_require(!result.code || result.code == TSR_SIGNATURE || fuzz_faults,
                 "the code of refusal");
    fuzz_require(result.code ||
                     (file.comment_size == strlen(file.comment) && file.comment_size < size),
                 "a comment inside of the file");
    return !result.code || !strstr(ctx->error.text, "four lines");
}

static bool run(const uint8_t *bytes, size_t size_bytes) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    uint64_t number = 0;
    unsigned char key[32];
    bool passed = false;
    if (size_bytes < 2) return false;
    if (bytes[0] % KINDS == 0)
        passed = run_sigstore(&ctx, bytes + 1, size_bytes - 1, &arena);
    else if (bytes[0] % KINDS == 1)
        passed = run_minisign(&ctx, bytes + 1, size_bytes - 1, &arena);
    else
        passed = tsr_minisign_parse_key((const char *)bytes + 1, size_bytes - 1, &number, key);
    tsr_arena_finish(&arena);
    return passed;
}

/* Mutates one line of a minisign file, which keeps its line feeds. */
static size_t mutate_line(uint8_t *text, size_t size, size_t size_max, uint32_t *state) {
    uint8_t line[512];
    size_t begin = 0, wanted = fuzz_random(state) % 4;
    for (uint8_t *end = text; wanted && (end = memchr(end, '\n', size - (size_t)(end - text)));
         wanted--)
        begin = (size_t)(++end - text);
    uint8_t *end = memchr(text + begin, '\n', size - begin);
    size_t length = (end ? (size_t)(end - text) : size) - begin, rest = size - begin - length;
    if (length > sizeof line / 2) return LLVMFuzzerMutate(text, size, size_max);
    memcpy(line, text + begin, length);
    size_t changed = LLVMFuzzerMutate(line, length, length + 64);
    for (size_t i = 0; i < changed; i++)
        if (line[i] == '\n' || !line[i]) line[i] = 'A';
    if (begin + changed + rest > size_max) return size;
    memmove(text + begin + changed, text + begin + length, rest);
    memcpy(text + begin, line, changed);
    return begin + changed + rest;
}

static size_t mutate(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t seed) {
    uint32_t state = seed;
    if (size_bytes < 2 || size_max < 64 || fuzz_one_in(&state, 32))
        return LLVMFuzzerMutate(bytes, size_bytes, size_max);
    size_t size = bytes[0] % KINDS == 0
                      ? fuzz_mutate_json(bytes + 1, size_bytes - 1, size_max - 1, &state)
                      : mutate_line(bytes + 1, size_bytes - 1, size_max - 1, &state);
    if (bytes[0] % KINDS == 1 && size > 200 && fuzz_one_in(&state, 2))
        memcpy(bytes + 1, minisign, 19);
    return 1 + size;
}

const fuzz_target fuzz_the_target = {"signature", seed, run, mutate};
