/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads JSON that may be hostile: a scan refuses invalid text that cJSON would accept, then cJSON
 * parses, then the accessors check types. JSON is written with tsr_buffer: the written bytes are
 * stored unchanged. For large documents, tsr_json_scan reports token by token and builds no tree.
 *
 * The scan refuses: depth > 16, duplicate keys in one object, invalid UTF-8, \u0000, numbers that
 * are not integers 0 … 2^53 (unless `allow_numbers`: then below 1e308, 60 characters), anything
 * after the end. A tree has at most 2^23 tokens (a key, a scalar, a container each count as one),
 * which bounds its memory by about 800 MiB; callers bound the bytes. Scanning and parsing take O(n
 * log n), for any keys. Messages read `SUBJECT: offset N: expected A, got B`.
 */
#ifndef TSR_BASE_JSON_H
#define TSR_BASE_JSON_H

#include "runtime/base/arena.h"
#include "runtime/base/result.h"

struct cJSON;

enum { TSR_JSON_DEPTH_MAX = 16, TSR_JSON_TOKENS_MAX = 1 << 23 };

typedef struct tsr_json_options {
    const char *subject; /* borrowed; begins every message, e.g. "config blob" */
    tsr_code code;       /* code of every error: TSR_CORRUPT, TSR_DATA, TSR_STATE … */
    bool allow_numbers;  /* negative and fractional numbers are accepted */
} tsr_json_options;

typedef enum tsr_json_kind {
    TSR_JSON_OBJECT,
    TSR_JSON_OBJECT_END,
    TSR_JSON_ARRAY,
    TSR_JSON_ARRAY_END,
    TSR_JSON_KEY,
    TSR_JSON_STRING,
    TSR_JSON_NUMBER,
    TSR_JSON_WORD, /* true, false, null */
} tsr_json_kind;

typedef struct tsr_json_event {
    tsr_json_kind kind;
    uint32_t depth;    /* number of enclosing containers */
    const char *text;  /* key and string: without quotes and escapes; number, word: as written; else
                          NULL. Borrowed until the visitor returns, without a NUL at the end */
    size_t size_bytes; /* size of the text */
} tsr_json_event;

/* A failure ends the scan. Keys are reported before duplicates are searched for, so a visitor must
 * accept them; the scan fails at the end of such an object. */
typedef tsr_result tsr_json_visit(tsr_ctx *ctx, void *user, const tsr_json_event *event);

/* Needs memory of at most 6 times the text, which has less than 4 GiB. Without a visitor (NULL),
 * tokens are counted instead: tsr_json_parse can read every text that such a scan accepts. */
TSR_RESULT tsr_json_scan(tsr_ctx *ctx, const char *text, size_t size_bytes,
                         const tsr_json_options *options, tsr_json_visit *visit, void *user);

TSR_RESULT tsr_json_parse(tsr_ctx *ctx, const char *text, size_t size_bytes,
                          const tsr_json_options *options,
                          struct cJSON **out_root); /* caller owns: tsr_json_destroy */
void tsr_json_destroy(struct cJSON *root);          /* accepts NULL */

/* Return members of an object, by exact key. A missing or mistyped one fails with options->code and
 * names subject and key. Results are borrowed from the tree. */
TSR_RESULT tsr_json_get_string(tsr_ctx *ctx, const struct cJSON *object, const char *key,
                               const tsr_json_options *options, const char **out_text);
TSR_RESULT tsr_json_get_u64(tsr_ctx *ctx, const struct cJSON *object, const char *key,
                            const tsr_json_options *options, uint64_t *out_value);
TSR_RESULT tsr_json_get_object(tsr_ctx *ctx, const struct cJSON *object, const char *key,
                               const tsr_json_options *options, const struct cJSON **out_object);
TSR_RESULT tsr_json_get_array(tsr_ctx *ctx, const struct cJSON *object, const char *key,
                              const tsr_json_options *options, const struct cJSON **out_array,
                              size_t *out_count);
/* True for well-formed UTF-8 without NUL, as in a JSON string. */
bool tsr_utf8_valid(const char *text, size_t size_bytes);

/* Returns NULL if absent. */
const struct cJSON *tsr_json_find(const struct cJSON *object, const char *key);

#endif
