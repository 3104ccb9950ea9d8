/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrappers for MSan: OpenSSL, cJSON and zstd are not instrumented, so MSan would treat their output
 * as uninitialized. Linked with --wrap: each wrapper requires initialized input and marks the
 * output as initialized.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <cjson/cJSON.h>
#include <openssl/sha.h>
#include <sanitizer/msan_interface.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

int __real_SHA256_Update(SHA256_CTX *context, const void *bytes, size_t size);
int __real_SHA256_Final(unsigned char *digest, SHA256_CTX *context);
size_t __real_ZSTD_decompress(void *out, size_t room, const void *bytes, size_t size);
size_t __real_ZSTD_compress2(ZSTD_CCtx *zstd, void *out, size_t room, const void *bytes,
                             size_t size);
cJSON *__real_cJSON_ParseWithLength(const char *text, size_t size);
char *__real_cJSON_PrintUnformatted(const cJSON *root);
int __wrap_SHA256_Update(SHA256_CTX *context, const void *bytes, size_t size);
int __wrap_SHA256_Final(unsigned char *digest, SHA256_CTX *context);
size_t __wrap_ZSTD_decompress(void *out, size_t room, const void *bytes, size_t size);
size_t __wrap_ZSTD_compress2(ZSTD_CCtx *zstd, void *out, size_t room, const void *bytes,
                             size_t size);
cJSON *__wrap_cJSON_ParseWithLength(const char *text, size_t size);
char *__wrap_cJSON_PrintUnformatted(const cJSON *root);

int __wrap_SHA256_Update(SHA256_CTX *context, const void *bytes, size_t size) {
    __msan_check_mem_is_initialized(bytes, size);
    return __real_SHA256_Update(context, bytes, size);
}

int __wrap_SHA256_Final(unsigned char *digest, SHA256_CTX *context) {
    int result = __real_SHA256_Final(digest, context);
    __msan_unpoison(digest, SHA256_DIGEST_LENGTH);
    return result;
}

size_t __wrap_ZSTD_decompress(void *out, size_t room, const void *bytes, size_t size) {
    __msan_check_mem_is_initialized(bytes, size);
    size_t result = __real_ZSTD_decompress(out, room, bytes, size);
    if (!ZSTD_isError(result)) __msan_unpoison(out, result);
    return result;
}

size_t __wrap_ZSTD_compress2(ZSTD_CCtx *zstd, void *out, size_t room, const void *bytes,
                             size_t size) {
    __msan_check_mem_is_initialized(bytes, size);
    size_t result = __real_ZSTD_compress2(zstd, out, room, bytes, size);
    if (!ZSTD_isError(result)) __msan_unpoison(out, result);
    return result;
}

size_t __real_LLVMFuzzerMutate(unsigned char *bytes, size_t size, size_t room);
size_t __wrap_LLVMFuzzerMutate(unsigned char *bytes, size_t size, size_t room);
size_t __wrap_LLVMFuzzerMutate(unsigned char *bytes, size_t size, size_t room) {
    size_t result = __real_LLVMFuzzerMutate(bytes, size, room);
    __msan_unpoison(bytes, result);
    return result;
}

/* Memory that cJSON allocates is initialized. */
static void *zeroed(size_t size) { return calloc(1, size); }
__attribute__((constructor)) static void set_hooks(void) {
    cJSON_Hooks hooks = {.malloc_fn = zeroed, .free_fn = free};
    cJSON_InitHooks(&hooks);
}

/* The recursion is bounded, because the scan has limited the depth. */
static void unpoison_tree(const cJSON *item) {
    for (; item; item = item->next) {
        __msan_unpoison(item, sizeof *item);
        if (item->string) __msan_unpoison_string(item->string);
        if (item->valuestring) __msan_unpoison_string(item->valuestring);
        unpoison_tree(item->child);
    }
}

cJSON *__wrap_cJSON_ParseWithLength(const char *text, size_t size) {
    __msan_check_mem_is_initialized(text, size);
    cJSON *root = __real_cJSON_ParseWithLength(text, size);
    unpoison_tree(root);
    return root;
}

char *__wrap_cJSON_PrintUnformatted(const cJSON *root) {
    char *text = __real_cJSON_PrintUnformatted(root);
    if (text) __msan_unpoison_string(text);
    return text;
}
