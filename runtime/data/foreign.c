/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/data/foreign.h"

#include "runtime/base/array.h"

#include <string.h>
#include <strings.h>

typedef enum foreign_kind {
#define KIND(id, what, advice) KIND_##id,
#include "runtime/data/foreign.def"
    KIND_COUNT
} foreign_kind;

static const tsr_foreign kinds[KIND_COUNT] = {
#define KIND(id, what, advice) [KIND_##id] = {what, advice},
#include "runtime/data/foreign.def"
};

static const struct {
    const char *suffix;
    foreign_kind kind;
} suffixes[] = {
#define SUFFIX(suffix, id) {suffix, KIND_##id},
#include "runtime/data/foreign.def"
};

static const struct {
    size_t offset, size_bytes;
    const char *bytes;
    foreign_kind kind;
} magics[] = {
#define MAGIC(offset, bytes, size_bytes, id) {offset, size_bytes, bytes, KIND_##id},
#include "runtime/data/foreign.def"
};

enum { HEAD_BYTES = 512, TEXT_BYTES_MIN = 16 };

const tsr_foreign *tsr_foreign_by_name(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    size_t length = dot ? strcspn(dot, ":") : 0;
    for (size_t i = 0; dot && i < TSR_COUNT(suffixes); i++)
        if (strlen(suffixes[i].suffix) == length &&
            strncasecmp(dot, suffixes[i].suffix, length) == 0)
            return &kinds[suffixes[i].kind];
    return NULL;
}

bool tsr_array_says_other(const char *path, const char *extension) {
    static const char *const ours[] = {".npy", ".npz", ".safetensors", ".bin", ".txt"};
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    if (!dot || strcasecmp(dot, extension) == 0) return false;
    for (size_t i = 0; i < TSR_COUNT(ours); i++)
        if (strcasecmp(dot, ours[i]) == 0) return true;
    return tsr_foreign_by_name(path) != NULL;
}

/* Protocols 2 to 5: the protocol number, an opcode that can come first, and STOP at the end. */
static tsr_result check_pickle(tsr_ctx *ctx, const tsr_array *array, const unsigned char *head,
                               size_t size, bool *out_is_pickle) {
    unsigned char last = 0;
    *out_is_pickle = false;
    if (size < 4 || head[0] != 0x80 || head[1] < 2 || head[1] > 5) return TSR_SUCCESS;
    bool begins = head[2] && strchr("}](c)XUKMJGBC\x8a\x8c\x8e\x95", head[2]);
    TRY(ctx, tsr_array_fetch(ctx, array, array->size_bytes - 1, &last, 1));
    *out_is_pickle = begins && last == '.';
    return TSR_SUCCESS;
}

/* A plausible header length, and a JSON object after it. */
static bool is_safetensors(const tsr_array *array, const unsigned char *head, size_t size) {
    uint64_t length = 0;
    for (size_t i = 0; i < 8 && size > 16; i++) length |= (uint64_t)head[i] << (8 * i);
    return length >= 2 && length <= array->size_bytes - 8 && length < TSR_SAFETENSORS_HEADER_MAX &&
           head[8] == '{' && (head[9] == '"' || head[9] == ' ' || head[9] == '}');
}

/* Only printable ASCII, which multi-byte elements rarely are. */
static bool is_text(const unsigned char *head, size_t size) {
    size_t at = 0;
    while (at < size && ((head[at] >= ' ' && head[at] <= '~') || strchr("\t\r\n", head[at])) &&
           head[at])
        at++;
    return size >= TEXT_BYTES_MIN && at == size;
}

static tsr_result find(tsr_ctx *ctx, const tsr_array *array, tsr_dtype flat,
                       const tsr_foreign **out_found) {
    unsigned char head[HEAD_BYTES];
    size_t size = array->size_bytes < HEAD_BYTES ? (size_t)array->size_bytes : HEAD_BYTES;
    bool is_pickle = false;
    *out_found = tsr_foreign_by_name(array->spec);
    if (*out_found) return TSR_SUCCESS;
    TRY(ctx, tsr_array_fetch(ctx, array, 0, head, size));
    for (size_t i = 0; i < TSR_COUNT(magics); i++) {
        if (magics[i].offset + magics[i].size_bytes > size) continue;
        if (memcmp(head + magics[i].offset, magics[i].bytes, magics[i].size_bytes) != 0) continue;
        *out_found = &kinds[magics[i].kind];
        return TSR_SUCCESS;
    }
    TRY(ctx, check_pickle(ctx, array, head, size, &is_pickle));
    if (is_pickle)
        *out_found = &kinds[KIND_PICKLE];
    else if (is_safetensors(array, head, size))
        *out_found = &kinds[KIND_SAFETENSORS];
    else if (tsr_dtype_size(flat) > 1 && is_text(head, size))
        *out_found = &kinds[KIND_TEXT];
    return TSR_SUCCESS;
}

tsr_result tsr_foreign_check(tsr_ctx *ctx, const tsr_array *array, tsr_dtype flat) {
    const tsr_foreign *found = NULL;
    TRY(ctx, find(ctx, array, flat, &found));
    if (!found) return TSR_SUCCESS;
    FAIL(ctx, TSR_DATA,
         "'%s' is %s; expected .npy, .npz, .safetensors, or a flat file of elements: %s",
         array->spec, found->what, found->advice);
}
