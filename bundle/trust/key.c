/* SPDX-License-Identifier: Apache-2.0 */
#include "bundle/trust/key.h"

#include "bundle/limits.h"
#include "bundle/trust/minisign.h"
#include "runtime/base/io/io.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <string.h>
#include <unistd.h>

static const char curve[] = "prime256v1"; /* OpenSSL's name of P-256 */

/* OpenSSL queues the errors of each thread; this empties the queue. */
static const char *last_reason(void) {
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return reason ? reason : "no reason given";
}

tsr_result tsr_crypto_init(tsr_ctx *ctx, tsr_crypto *out_crypto) {
    tsr_crypto crypto = {.library = OSSL_LIB_CTX_new()};
    if (!crypto.library) FAIL(ctx, TSR_MEMORY, "OpenSSL does not start: %s", last_reason());
    *out_crypto = crypto;
    return TSR_SUCCESS;
}

void tsr_crypto_finish(tsr_crypto *crypto) {
    OSSL_LIB_CTX_free(crypto->library);
    crypto->library = NULL;
}

void tsr_key_finish(tsr_key *key) {
    EVP_PKEY_free(key->pkey);
    key->pkey = NULL;
}

static tsr_result set_identity(tsr_ctx *ctx, const char *subject, tsr_key *key) {
    unsigned char *der = NULL;
    int size = i2d_PUBKEY(key->pkey, &der);
    if (size <= 0) FAIL(ctx, TSR_MEMORY, "%s: cannot encode the key: %s", subject, last_reason());
    key->id = tsr_hash(der, (size_t)size);
    OPENSSL_free(der);
    return TSR_SUCCESS;
}

/* Checks that the key is on P-256, and computes its identity. */
static tsr_result identify(tsr_ctx *ctx, const char *subject, tsr_key *key) {
    char group[64] = "";
    size_t length = 0;
    if (!EVP_PKEY_is_a(key->pkey, "EC") ||
        !EVP_PKEY_get_group_name(key->pkey, group, sizeof group, &length)) {
        ERR_clear_error();
        const char *type = EVP_PKEY_get0_type_name(key->pkey);
        FAIL(ctx, TSR_USAGE, "%s has a key of type %s; expected ECDSA on the curve P-256", subject,
             type ? type : "unknown");
    }
    if (strcmp(group, curve) != 0)
        FAIL(ctx, TSR_USAGE, "%s has a key on the curve '%s'; expected P-256 (%s)", subject, group,
             curve);
    return set_identity(ctx, subject, key);
}

/* Reads a public key of minisign; sets nothing if the text is not such a key. */
static tsr_result decode_minisign(tsr_ctx *ctx, const tsr_crypto *crypto, const char *path,
                                  const void *text, size_t size, tsr_key *key) {
    unsigned char raw[32];
    if (key->is_private || !tsr_minisign_parse_key(text, size, &key->number, raw))
        return TSR_SUCCESS;
    key->pkey = EVP_PKEY_new_raw_public_key_ex(crypto->library, "ED25519", NULL, raw, sizeof raw);
    if (!key->pkey) FAIL(ctx, TSR_USAGE, "'%s' holds no Ed25519 key: %s", path, last_reason());
    key->is_minisign = true;
    return set_identity(ctx, path, key);
}

/* Without this, OpenSSL would ask at the terminal. */
static int refuse_passphrase(char *out_text, int size, int is_writing, void *user) {
    (void)out_text, (void)size, (void)is_writing, (void)user;
    return -1;
}

static tsr_result decode(tsr_ctx *ctx, const tsr_crypto *crypto, const char *path, const void *pem,
                         size_t size, tsr_key *key) {
    TRY(ctx, decode_minisign(ctx, crypto, path, pem, size, key));
    if (key->is_minisign) return TSR_SUCCESS;
    BIO *bio = BIO_new_mem_buf(pem, (int)size);
    if (!bio) FAIL(ctx, TSR_MEMORY, "no memory for the key '%s'", path);
    key->pkey =
        key->is_private
            ? PEM_read_bio_PrivateKey_ex(bio, NULL, refuse_passphrase, NULL, crypto->library, NULL)
            : PEM_read_bio_PUBKEY_ex(bio, NULL, refuse_passphrase, NULL, crypto->library, NULL);
    BIO_free(bio);
    if (!key->pkey)
        FAIL(ctx, TSR_USAGE, "'%s' holds no %s key in PEM%s: %s", path,
             key->is_private ? "private" : "public",
             key->is_private ? " without a passphrase" : ", and no key of minisign", last_reason());
    return identify(ctx, path, key);
}

tsr_result tsr_key_read(tsr_ctx *ctx, const tsr_crypto *crypto, const char *path, bool is_private,
                        tsr_key *out_key) {
    tsr_arena arena = {0};
    tsr_key key = {.is_private = is_private};
    void *pem = NULL;
    size_t size = 0;
    tsr_result result;
    TRY_GOTO(ctx, result,
             tsr_io_read_file(ctx, path, TSR_SIGNATURE_KEY_BYTES_MAX, &arena, &pem, &size));
    result = decode(ctx, crypto, path, pem, size, &key);
    OPENSSL_cleanse(pem, size);
    TRY_GOTO(ctx, result, result);
    *out_key = key;
    key.pkey = NULL;
done:
    tsr_key_finish(&key);
    tsr_arena_finish(&arena);
    return result;
}

tsr_result tsr_key_generate(tsr_ctx *ctx, const tsr_crypto *crypto, tsr_key *out_key) {
    tsr_key key = {.is_private = true,
                   .pkey = EVP_PKEY_Q_keygen(crypto->library, NULL, "EC", "P-256")};
    if (!key.pkey) FAIL(ctx, TSR_MEMORY, "cannot make a key: %s", last_reason());
    tsr_result result = identify(ctx, "a new key", &key);
    if (result.code)
        tsr_key_finish(&key);
    else
        *out_key = key;
    return result;
}

static tsr_result write_new(tsr_ctx *ctx, const char *path, BIO *text, mode_t mode) {
    const tsr_io *io = tsr_ctx_io(ctx);
    char *bytes = NULL;
    long size = BIO_get_mem_data(text, &bytes);
    int fd = -1;
    TRY(ctx, tsr_io_open(ctx, path, O_WRONLY | O_CREAT | O_EXCL, mode, &fd));
    tsr_result result = tsr_io_write_all(ctx, fd, path, bytes, (size_t)size, 0);
    int synced = result.code ? 0 : io->fsync(io->self, fd);
    int closed = io->close(io->self, fd);
    if (synced >= 0) synced = closed;
    if (!result.code && synced < 0)
        result = tsr_fail_(ctx, TSR_IO, -synced, __FILE__, __LINE__, "cannot write '%s'", path);
    if (result.code) io->unlink(io->self, TSR_IO_CWD, path, 0);
    return result;
}

tsr_result tsr_key_write(tsr_ctx *ctx, const tsr_key *key, const char *private_path,
                         const char *public_path) {
    const tsr_io *io = tsr_ctx_io(ctx);
    BIO *secret = BIO_new(BIO_s_mem()), *open = BIO_new(BIO_s_mem()); /* cleansed when freed */
    tsr_result result = TSR_SUCCESS;
    TSR_ASSERT(key->is_private);
    if (!secret || !open ||
        !PEM_write_bio_PKCS8PrivateKey(secret, key->pkey, NULL, NULL, 0, NULL, NULL) ||
        !PEM_write_bio_PUBKEY(open, key->pkey))
        FAIL_GOTO(ctx, result, TSR_MEMORY, "cannot encode a key: %s", last_reason());
    TRY_GOTO(ctx, result, write_new(ctx, private_path, secret, 0600));
    result = write_new(ctx, public_path, open, 0644);
    if (result.code) io->unlink(io->self, TSR_IO_CWD, private_path, 0);
    TRY_GOTO(ctx, result, result);
done:
    BIO_free(secret);
    BIO_free(open);
    return result;
}

tsr_result tsr_key_sign(tsr_ctx *ctx, const tsr_crypto *crypto, const tsr_key *key,
                        const void *bytes, size_t size_bytes, tsr_arena *arena,
                        void **out_signature, size_t *out_signature_size) {
    size_t size = (size_t)EVP_PKEY_get_size(key->pkey); /* the maximum size */
    unsigned char *signature = tsr_arena_alloc(arena, size, 1, 1);
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    tsr_result result = TSR_SUCCESS;
    TSR_ASSERT(key->is_private);
    if (!signature || !md) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for a signature");
    if (EVP_DigestSignInit_ex(md, NULL, "SHA256", crypto->library, NULL, key->pkey, NULL) != 1 ||
        EVP_DigestSign(md, signature, &size, bytes, size_bytes) != 1)
        FAIL_GOTO(ctx, result, TSR_INTERNAL, "cannot sign: %s", last_reason());
    /* Either the two halves of the key file do not match, or the machine made an error. */
    if (!tsr_key_verify(crypto, key, bytes, size_bytes, signature, size))
        FAIL_GOTO(ctx, result, TSR_USAGE,
                  "the public half of the key does not verify a signature of its private half");
    *out_signature = signature;
    *out_signature_size = size;
done:
    EVP_MD_CTX_free(md);
    return result;
}

bool tsr_key_verify(const tsr_crypto *crypto, const tsr_key *key, const void *bytes,
                    size_t size_bytes, const void *signature, size_t signature_size) {
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    bool good = md &&
                EVP_DigestVerifyInit_ex(md, NULL, key->is_minisign ? NULL : "SHA256",
                                        crypto->library, NULL, key->pkey, NULL) == 1 &&
                EVP_DigestVerify(md, signature, signature_size, bytes, size_bytes) == 1;
    EVP_MD_CTX_free(md);
    ERR_clear_error();
    return good;
}
