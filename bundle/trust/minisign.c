/* SPDX-License-Identifier: Apache-2.0 */
#include "bundle/trust/minisign.h"

#include "bundle/internal.h"
#include "bundle/trust/dsse.h"

#include <inttypes.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

static const char untrusted[] = "untrusted comment: ", trusted[] = "trusted comment: ";

enum {
    LINES = 4,
    PREFIX_BYTES = 2 + 8, /* algorithm, number of the key */
    DIGEST_BYTES = 64,    /* BLAKE2b-512 */
    KEY_BYTES = 32,
    BLOCK_BYTES = 256 * 1024,
    HEAD_BYTES_MAX = 4096, /* start of a canonical archive, up to the end of index.json */
};

static uint64_t read_number(const unsigned char *bytes) {
    uint64_t number = 0;
    for (int i = 8; i-- > 0;) number = number << 8 | bytes[i];
    return number;
}

/* ---- files ---- */

/* Splits the text into its lines, which are in the arena, each NUL-terminated. */
static bool split(const char *text, size_t size, tsr_arena *arena, char *out_lines[LINES]) {
    char *copy = memchr(text, 0, size) ? NULL : tsr_arena_strndup(arena, text, size);
    for (int i = 0; i < LINES; i++) {
        char *end = copy ? strchr(copy, '\n') : NULL;
        if (!end) return false;
        *end = 0;
        out_lines[i] = copy;
        copy = end + 1;
    }
    return copy[0] == 0;
}

tsr_result tsr_minisign_parse(tsr_ctx *ctx, const char *path, const void *text, size_t size_bytes,
                              tsr_arena *arena, tsr_minisign *out_file) {
    char *lines[LINES] = {NULL};
    void *signature = NULL, *global = NULL;
    size_t signature_size = 0, global_size = 0;
    if (!split(text, size_bytes, arena, lines) ||
        strncmp(lines[0], untrusted, sizeof untrusted - 1) != 0 ||
        strncmp(lines[2], trusted, sizeof trusted - 1) != 0)
        FAIL(ctx, TSR_SIGNATURE,
             "%s: expected the four lines of a minisign signature, got another form", path);
    TRY(ctx, tsr_base64_decode(ctx, path, "line 2", lines[1], arena, &signature, &signature_size));
    TRY(ctx, tsr_base64_decode(ctx, path, "line 4", lines[3], arena, &global, &global_size));
    if (signature_size != PREFIX_BYTES + TSR_ED25519_BYTES || global_size != TSR_ED25519_BYTES)
        FAIL(ctx, TSR_SIGNATURE, "%s: expected signatures of %d and %d bytes, got %zu and %zu",
             path, PREFIX_BYTES + TSR_ED25519_BYTES, TSR_ED25519_BYTES, signature_size,
             global_size);
    const unsigned char *bytes = signature;
    if (bytes[0] == 'E' && bytes[1] == 'd')
        FAIL(ctx, TSR_SIGNATURE,
             "%s: expected a signature of the file's digest, got one of minisign -l: sign again "
             "without -l",
             path);
    if (bytes[0] != 'E' || bytes[1] != 'D')
        FAIL(ctx, TSR_SIGNATURE, "%s: expected the algorithm ED, got 0x%02x%02x", path, bytes[0],
             bytes[1]);
    *out_file = (tsr_minisign){.key_number = read_number(bytes + 2),
                               .signature = bytes + PREFIX_BYTES,
                               .global_signature = global,
                               .comment = lines[2] + sizeof trusted - 1};
    out_file->comment_size = strlen(out_file->comment);
    return TSR_SUCCESS;
}

bool tsr_minisign_parse_key(const char *text, size_t size_bytes, uint64_t *out_number,
                            unsigned char out_key[static KEY_BYTES]) {
    unsigned char bytes[60];
    const char *end = memchr(text, '\n', size_bytes);
    if (size_bytes < sizeof untrusted || strncmp(text, untrusted, sizeof untrusted - 1) != 0 ||
        !end)
        return false;
    const char *line = end + 1;
    size_t length = size_bytes - (size_t)(line - text);
    if (length > 0 && line[length - 1] == '\n') length--;
    /* 42 bytes: "Ed", number, key; Base64 without padding */
    if (length != 56 || EVP_DecodeBlock(bytes, (const unsigned char *)line, 56) != 42) return false;
    if (bytes[0] != 'E' || bytes[1] != 'd') return false;
    *out_number = read_number(bytes + 2);
    memcpy(out_key, bytes + PREFIX_BYTES, KEY_BYTES);
    return true;
}

/* ---- verifying ---- */

/* Writes the start of the canonical archive: oci-layout, then index.json, which names the index. */
static size_t format_head(const tsr_bundle *bundle, unsigned char out_head[static HEAD_BYTES_MAX]) {
    static const char marker[] = TSR_OCI_LAYOUT;
    tsr_buffer root = {0};
    size_t at = TSR_TAR_BLOCK_BYTES;
    memset(out_head, 0, HEAD_BYTES_MAX);
    tsr_tar_format_header(out_head, "oci-layout", '0', sizeof marker - 1);
    memcpy(out_head + at, marker, sizeof marker - 1);
    at += TSR_TAR_BLOCK_BYTES;
    tsr_layout_format_root(&root, &bundle->layout.index);
    size_t capacity = HEAD_BYTES_MAX - at - TSR_TAR_BLOCK_BYTES;
    size_t size = root.failed || root.size_bytes > capacity ? 0 : root.size_bytes;
    tsr_tar_format_header(out_head + at, "index.json", '0', size);
    at += TSR_TAR_BLOCK_BYTES;
    if (size) memcpy(out_head + at, root.bytes, size);
    tsr_buffer_finish(&root);
    return size ? at + size + tsr_tar_gap(size) : 0;
}

static tsr_result hash_file(tsr_ctx *ctx, const tsr_bundle *bundle, const char *path,
                            EVP_MD_CTX *hasher, unsigned char *block) {
    unsigned char head[HEAD_BYTES_MAX];
    size_t head_size = format_head(bundle, head);
    if (!head_size) FAIL(ctx, TSR_MEMORY, "no memory to check '%s'", path);
    for (uint64_t at = 0; at < bundle->file_size_bytes;) {
        uint64_t left = bundle->file_size_bytes - at;
        size_t size = left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
        TRY(ctx, tsr_io_read_exact(ctx, bundle->fd, bundle->path, block, size, at));
        if (at == 0 && (size < head_size || memcmp(block, head, head_size) != 0))
            FAIL(ctx, TSR_SIGNATURE,
                 "%s: expected a canonical archive that begins with its index, got another: repack "
                 "it, then sign it",
                 path);
        EVP_DigestUpdate(hasher, block, size);
        at += size;
    }
    return TSR_SUCCESS;
}

static tsr_result digest_file(tsr_ctx *ctx, const tsr_bundle *bundle, const char *path,
                              const tsr_crypto *crypto, unsigned char out_digest[DIGEST_BYTES]) {
    EVP_MD *blake = EVP_MD_fetch(crypto->library, "BLAKE2B-512", NULL);
    EVP_MD_CTX *hasher = EVP_MD_CTX_new();
    unsigned char *block = malloc(BLOCK_BYTES);
    unsigned int size = 0;
    tsr_result result = TSR_SUCCESS;
    if (!blake || !hasher || !block || EVP_DigestInit_ex(hasher, blake, NULL) != 1)
        FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to check '%s'", path);
    TRY_GOTO(ctx, result, hash_file(ctx, bundle, path, hasher, block));
    if (EVP_DigestFinal_ex(hasher, out_digest, &size) != 1 || size != DIGEST_BYTES)
        FAIL_GOTO(ctx, result, TSR_INTERNAL, "cannot hash '%s'", bundle->path);
done:
    free(block);
    EVP_MD_CTX_free(hasher);
    EVP_MD_free(blake);
    ERR_clear_error();
    return result;
}

tsr_result tsr_minisign_verify(tsr_ctx *ctx, const tsr_bundle *bundle, const char *path,
                               const tsr_minisign *file, const tsr_crypto *crypto,
                               const tsr_key *key) {
    unsigned char digest[DIGEST_BYTES];
    if (bundle->is_directory)
        FAIL(ctx, TSR_SIGNATURE,
             "%s: expected a file, since minisign signs bytes of files; '%s' is a directory", path,
             bundle->path);
    TRY(ctx, digest_file(ctx, bundle, path, crypto, digest));
    if (!tsr_key_verify(crypto, key, digest, sizeof digest, file->signature, TSR_ED25519_BYTES))
        FAIL(ctx, TSR_SIGNATURE,
             "%s: the signature is wrong: minisign key %016" PRIx64 " did not make it over '%s'",
             path, key->number, bundle->path);
    size_t size = TSR_ED25519_BYTES + file->comment_size;
    unsigned char *signed_bytes = malloc(size);
    if (!signed_bytes) FAIL(ctx, TSR_MEMORY, "no memory to check '%s'", path);
    memcpy(signed_bytes, file->signature, TSR_ED25519_BYTES);
    memcpy(signed_bytes + TSR_ED25519_BYTES, file->comment, file->comment_size);
    bool good =
        tsr_key_verify(crypto, key, signed_bytes, size, file->global_signature, TSR_ED25519_BYTES);
    free(signed_bytes);
    if (!good)
        FAIL(ctx, TSR_SIGNATURE,
             "%s: the trusted comment is wrong: minisign key %016" PRIx64 " did not sign it", path,
             key->number);
    return TSR_SUCCESS;
}
