/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/record/record.h"

#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "runtime/base/io/identity_json.h"
#include "runtime/base/io/io.h"
#include "runtime/base/io/json.h"
#include "runtime/base/plural.h"
#include "runtime/record/locate.h"

#include <cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_FORMAT "tessera.record.v5"
#define RECORD_FORMAT_1 "tessera.record.v1"
#define RECORD_FORMAT_2 "tessera.record.v2"
#define RECORD_FORMAT_3 "tessera.record.v3"
#define RECORD_FORMAT_4 "tessera.record.v4"
static const size_t log_bytes_max = (size_t)1 << 32;

/* ---- writing ---- */

struct tsr_recorder {
    int fd;
    char *path; /* owned */
    uint64_t size_bytes;
    tsr_buffer line; /* owned; reused, so that a step allocates nothing (see widest_number) */
    tsr_digest chain;
    const tsr_tensor *tensors;
    size_t tensor_count;
    bool has_values;
    uint64_t values_of; /* step */
    uint64_t step;      /* the last step */
};

/* Appended once, to the line of the first step, to reserve room: later step numbers have more
 * digits. */
static const char widest_number[] = "18446744073709551615";

static uint64_t size_of(const tsr_tensor *tensor) {
    uint64_t size = 0;
    bool fits = tsr_shape_size(&tensor->shape, tensor->dtype, &size);
    TSR_ASSERT(fits);
    return size;
}

static tsr_digest digest_tensor(const tsr_tensor *tensor) {
    return tsr_hash_tree(tensor->data, (size_t)size_of(tensor));
}

static void append_hex(tsr_buffer *line, const tsr_digest *digest) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest_format(digest, hex);
    tsr_buffer_text(line, "\"");
    tsr_buffer_append(line, hex, TSR_DIGEST_HEX);
    tsr_buffer_text(line, "\"");
}

/* Begins the chain value of the next step. */
static tsr_hasher chain_begin(const tsr_digest *chain, uint64_t step) {
    tsr_hasher hasher;
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(step >> (8 * i));
    tsr_hasher_init(&hasher);
    tsr_hasher_update(&hasher, chain->bytes, sizeof chain->bytes);
    tsr_hasher_update(&hasher, bytes, sizeof bytes);
    return hasher;
}

static void append_header(tsr_buffer *line, const tsr_record_header *header,
                          const tsr_tensor *tensors, size_t tensor_count) {
    bool has_program = tsr_identity_is_known(&header->identity);
    tsr_buffer_printf(line, "{\"format\":\"%s\",\"bundle\":",
                      has_program          ? RECORD_FORMAT
                      : header->rows       ? RECORD_FORMAT_4
                      : header->has_values ? RECORD_FORMAT_3
                                           : RECORD_FORMAT_2);
    append_hex(line, &header->bundle_hash);
    if (has_program) {
        tsr_buffer_printf(line, ",\"virtual_ranks\":%" PRIu64 ",", header->virtual_ranks);
        tsr_identity_write_json(line, &header->identity);
        tsr_identity_write_set(line, &header->identity);
    }
    tsr_buffer_text(line, ",\"numerics\":");
    tsr_buffer_json_string(line, header->numerics);
    tsr_buffer_text(line, ",\"entry\":");
    tsr_buffer_json_string(line, header->entry);
    tsr_buffer_printf(line,
                      ",\"seed\":%" PRIu64 ",\"step\":%" PRIu64 ",\"generation\":%" PRIu64
                      ",\"epoch\":%" PRIu64,
                      header->seed, header->step, header->generation, header->epoch);
    if (header->rows)
        tsr_buffer_printf(
            line, ",\"rows\":%" PRIu64 ",\"epoch_base\":%" PRIu64 ",\"epoch_base_sample\":%" PRIu64,
            header->rows, header->epoch_base, header->epoch_base_sample);
    if (header->every > 1) tsr_buffer_printf(line, ",\"every\":%" PRIu64, header->every);
    if (header->has_values) tsr_buffer_printf(line, ",\"values_of\":%" PRIu64, header->values_of);
    tsr_buffer_text(line, ",\"data\":{");
    for (size_t i = 0; i < header->data_count; i++) {
        if (i) tsr_buffer_text(line, ",");
        tsr_buffer_json_string(line, header->data[i].name);
        tsr_buffer_text(line, ":");
        append_hex(line, &header->data[i].digest);
    }
    tsr_buffer_text(line, "},\"tensors\":[");
    for (size_t i = 0; i < tensor_count; i++) {
        if (i) tsr_buffer_text(line, ",");
        tsr_buffer_json_string(line, tensors[i].name);
    }
    tsr_buffer_text(line, "]}\n");
}

static tsr_result write_line(tsr_ctx *ctx, tsr_recorder *recorder) {
    if (recorder->line.failed)
        FAIL(ctx, TSR_MEMORY, "no memory for a line of the log '%s'", recorder->path);
    TRY(ctx, tsr_io_write_all(ctx, recorder->fd, recorder->path, recorder->line.bytes,
                              recorder->line.size_bytes, recorder->size_bytes));
    recorder->size_bytes += recorder->line.size_bytes;
    return TSR_SUCCESS;
}

/* Writes in pieces that fit into the reserved line, since the values are long and nothing may be
 * allocated. */
static tsr_result write_values(tsr_ctx *ctx, tsr_recorder *recorder) {
    enum { BLOCK_BYTES = 64 };
    static const char digits[] = "0123456789abcdef";
    tsr_buffer *line = &recorder->line;
    tsr_buffer_text(line, ",\"values\":[");
    for (size_t i = 0; i < recorder->tensor_count; i++) {
        uint64_t size = size_of(&recorder->tensors[i]);
        const unsigned char *bytes = recorder->tensors[i].data;
        tsr_buffer_text(line, i ? ",\"" : "\"");
        for (uint64_t at = 0; at < size; at += BLOCK_BYTES) {
            char hex[2 * BLOCK_BYTES];
            uint64_t count = size - at < BLOCK_BYTES ? size - at : BLOCK_BYTES;
            for (uint64_t k = 0; k < count; k++) {
                hex[2 * k] = digits[bytes[at + k] >> 4];
                hex[2 * k + 1] = digits[bytes[at + k] & 15];
            }
            if (line->capacity_bytes - line->size_bytes < 2 * sizeof hex) {
                TRY(ctx, write_line(ctx, recorder));
                line->size_bytes = 0;
            }
            tsr_buffer_append(line, hex, (size_t)(2 * count));
        }
        tsr_buffer_text(line, "\"");
    }
    tsr_buffer_text(line, "]");
    return TSR_SUCCESS;
}

tsr_result tsr_recorder_append(tsr_ctx *ctx, tsr_recorder *recorder, uint64_t step) {
    recorder->line.size_bytes = 0;
    tsr_buffer *line = &recorder->line;
    tsr_hasher hasher = chain_begin(&recorder->chain, step);
    char sums_hex[TSR_SUMS_HEX + 1];
    tsr_sums sums;
    tsr_buffer_printf(line, "{\"step\":%" PRIu64 ",\"digests\":[", step);
    for (size_t i = 0; i < recorder->tensor_count; i++) {
        tsr_digest digest = digest_tensor(&recorder->tensors[i]);
        tsr_hasher_update(&hasher, digest.bytes, sizeof digest.bytes);
        if (i) tsr_buffer_text(line, ",");
        append_hex(line, &digest);
    }
    tsr_buffer_text(line, "],\"sums\":[");
    for (size_t i = 0; i < recorder->tensor_count; i++) {
        tsr_sums_take(&recorder->tensors[i], &sums);
        tsr_sums_format(&sums, sums_hex);
        tsr_buffer_text(line, i ? ",\"" : "\"");
        tsr_buffer_append(line, sums_hex, TSR_SUMS_HEX);
        tsr_buffer_text(line, "\"");
    }
    recorder->chain = tsr_hasher_finish(&hasher);
    tsr_buffer_text(line, "],\"chain\":");
    append_hex(line, &recorder->chain);
    recorder->step = step;
    if (recorder->has_values && recorder->values_of == step) TRY(ctx, write_values(ctx, recorder));
    tsr_buffer_text(line, "}\n");
    return write_line(ctx, recorder);
}

static void recorder_free(const tsr_io *io, tsr_recorder *recorder) {
    if (recorder->fd >= 0) io->close(io->self, recorder->fd);
    tsr_buffer_finish(&recorder->line);
    free(recorder->path);
    free(recorder);
}

tsr_result tsr_recorder_create(tsr_ctx *ctx, const char *path, const tsr_record_header *header,
                               const tsr_tensor *tensors, size_t tensor_count,
                               tsr_recorder **out_recorder) {
    const tsr_io *io = tsr_ctx_io(ctx);
    tsr_result result = TSR_SUCCESS;
    tsr_recorder *recorder = calloc(1, sizeof *recorder);
    if (!recorder) FAIL(ctx, TSR_MEMORY, "no memory for the recorder of '%s'", path);
    *recorder = (tsr_recorder){.fd = -1,
                               .path = strdup(path),
                               .tensors = tensors,
                               .tensor_count = tensor_count,
                               .has_values = header->has_values,
                               .values_of = header->values_of};
    if (header->has_values && header->values_of < header->step)
        FAIL_GOTO(ctx, result, TSR_USAGE,
                  "the log '%s' begins with step %" PRIu64 "; the values of step %" PRIu64
                  " are requested",
                  path, header->step, header->values_of);
    if (header->has_values && header->every > 1 &&
        (header->values_of - header->step) % header->every != 0)
        FAIL_GOTO(ctx, result, TSR_USAGE,
                  "the log '%s' has one of %" PRIu64 " steps, from step %" PRIu64
                  "; the values of step %" PRIu64 " are requested",
                  path, header->every, header->step, header->values_of);
    if (!recorder->path) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for the path '%s'", path);
    recorder->fd = io->open(io->self, TSR_IO_CWD, path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (recorder->fd == -EEXIST)
        FAIL_GOTO(ctx, result, TSR_USAGE, "the log '%s' exists; a log is never overwritten", path);
    if (recorder->fd < 0) {
        result = tsr_fail_(ctx, TSR_IO, -recorder->fd, __FILE__, __LINE__,
                           "cannot create the log '%s'", path);
        goto done;
    }
    append_header(&recorder->line, header, tensors, tensor_count);
    TRY_GOTO(ctx, result, write_line(ctx, recorder));
    recorder->chain = tsr_hash(recorder->line.bytes, recorder->line.size_bytes - 1);
    TRY_GOTO(ctx, result, tsr_recorder_append(ctx, recorder, header->step));
    tsr_buffer_text(&recorder->line, widest_number);
    *out_recorder = recorder;
    return TSR_SUCCESS;
done:
    if (recorder->fd >= 0) io->unlink(io->self, TSR_IO_CWD, path, 0);
    recorder_free(io, recorder);
    return result;
}

tsr_result tsr_recorder_close(tsr_ctx *ctx, tsr_recorder *recorder) {
    const tsr_io *io = tsr_ctx_io(ctx);
    if (!recorder) return TSR_SUCCESS;
    int code = io->fsync(io->self, recorder->fd);
    tsr_result result = TSR_SUCCESS;
    if (code < 0)
        result = tsr_fail_(ctx, TSR_IO, -code, __FILE__, __LINE__, "cannot sync the log '%s'",
                           recorder->path);
    if (recorder->has_values && recorder->step < recorder->values_of)
        tsr_log(ctx, TSR_LOG_WARNING,
                "the log '%s' ends with step %" PRIu64 "; it has no values of step %" PRIu64,
                recorder->path, recorder->step, recorder->values_of);
    recorder_free(io, recorder);
    return result;
}

/* ---- reading ---- */

typedef struct replay_step {
    uint64_t step;
    tsr_digest *digests; /* one per tensor */
    tsr_sums *sums;      /* one per tensor; NULL in version 1 */
    /* One per tensor, each of the size that its digest states; NULL for all but one step in version
     * 3. */
    const unsigned char **values;
    size_t *value_bytes;
} replay_step;

struct tsr_replay {
    tsr_arena arena;
    const char *path;
    tsr_record_header header;
    const char **tensors; /* names */
    size_t tensor_count;
    replay_step *steps;
    size_t step_count;
    bool is_first_version, has_values;
    uint64_t values_of;           /* step */
    tsr_digest chain;             /* chain of the last line read */
    const char *const *locations; /* borrowed; NULL: unknown */
};

static tsr_result read_digest(tsr_ctx *ctx, const cJSON *item, const tsr_json_options *options,
                              tsr_digest *out_digest) {
    if (!cJSON_IsString(item) ||
        !tsr_digest_parse(item->valuestring, strlen(item->valuestring), out_digest))
        FAIL(ctx, options->code, "%s: '%s' is not a digest; expected 64 hexadecimal digits",
             options->subject, cJSON_IsString(item) ? item->valuestring : "a value");
    return TSR_SUCCESS;
}

static tsr_result read_data(tsr_ctx *ctx, tsr_replay *replay, const cJSON *root,
                            const tsr_json_options *options) {
    const cJSON *object = NULL, *item = NULL;
    TRY(ctx, tsr_json_get_object(ctx, root, "data", options, &object));
    size_t count = (size_t)cJSON_GetArraySize(object), index = 0;
    tsr_record_data *data = TSR_NEW(&replay->arena, tsr_record_data, count + 1);
    if (!data) FAIL(ctx, TSR_MEMORY, "%s: no memory", options->subject);
    cJSON_ArrayForEach(item, object) {
        data[index].name = tsr_arena_strdup(&replay->arena, item->string);
        if (!data[index].name) FAIL(ctx, TSR_MEMORY, "%s: no memory", options->subject);
        TRY(ctx, read_digest(ctx, item, options, &data[index++].digest));
    }
    replay->header.data = data;
    replay->header.data_count = count;
    return TSR_SUCCESS;
}

static tsr_result read_tensors(tsr_ctx *ctx, tsr_replay *replay, const cJSON *root,
                               const tsr_json_options *options) {
    const cJSON *array = NULL, *item = NULL;
    size_t count = 0, index = 0;
    TRY(ctx, tsr_json_get_array(ctx, root, "tensors", options, &array, &count));
    replay->tensors = TSR_NEW(&replay->arena, const char *, count + 1);
    if (!replay->tensors) FAIL(ctx, TSR_MEMORY, "%s: no memory", options->subject);
    cJSON_ArrayForEach(item, array) {
        if (!cJSON_IsString(item))
            FAIL(ctx, options->code,
                 "%s: 'tensors' has a member that is not a name; expected strings",
                 options->subject);
        replay->tensors[index] = tsr_arena_strdup(&replay->arena, item->valuestring);
        if (!replay->tensors[index++]) FAIL(ctx, TSR_MEMORY, "%s: no memory", options->subject);
    }
    replay->tensor_count = count;
    return TSR_SUCCESS;
}

static tsr_result read_rows(tsr_ctx *ctx, tsr_record_header *header, const cJSON *root,
                            const tsr_json_options *options) {
    TRY(ctx, tsr_json_get_u64(ctx, root, "rows", options, &header->rows));
    TRY(ctx, tsr_json_get_u64(ctx, root, "epoch_base", options, &header->epoch_base));
    TRY(ctx, tsr_json_get_u64(ctx, root, "epoch_base_sample", options, &header->epoch_base_sample));
    if (!header->rows || header->epoch_base > INT64_MAX / header->rows)
        FAIL(ctx, options->code,
             "%s: rows is %" PRIu64 " and epoch_base is %" PRIu64
             "; expected at least 1 row, and less than 2^63 samples up to epoch_base",
             options->subject, header->rows, header->epoch_base);
    return TSR_SUCCESS;
}

static tsr_result read_program(tsr_ctx *ctx, tsr_replay *replay, const cJSON *root,
                               const tsr_json_options *options) {
    tsr_record_header *header = &replay->header;
    TRY(ctx, tsr_json_get_u64(ctx, root, "virtual_ranks", options, &header->virtual_ranks));
    if (!header->virtual_ranks)
        FAIL(ctx, options->code, "%s: virtual_ranks is 0; expected at least 1", options->subject);
    TRY(ctx, tsr_identity_read_json(ctx, root, options, &replay->arena, &header->identity));
    return tsr_identity_read_set(ctx, root, options, &replay->arena, &header->identity);
}

/* Reads the format, and what a log of that format may have. */
static tsr_result read_format(tsr_ctx *ctx, tsr_replay *replay, const cJSON *root,
                              const tsr_json_options *options) {
    static const char *const formats[] = {RECORD_FORMAT_1, RECORD_FORMAT_2, RECORD_FORMAT_3,
                                          RECORD_FORMAT_4, RECORD_FORMAT};
    enum { FORMATS = TSR_COUNT(formats) };
    const char *format = NULL;
    size_t version = 0;
    TRY(ctx, tsr_json_get_string(ctx, root, "format", options, &format));
    while (version < FORMATS && strcmp(format, formats[version]) != 0) version++;
    if (version++ == FORMATS)
        FAIL(ctx, TSR_VERSION,
             "%s: format is '%s'; this version reads '" RECORD_FORMAT_1 "' to '" RECORD_FORMAT "'",
             options->subject, format);
    replay->is_first_version = version == 1;
    replay->has_values = version > 3 ? tsr_json_find(root, "values_of") != NULL : version == 3;
    /* A log of calls has no rows; before version 5 it therefore had the format of version 2 or 3.
     */
    bool has_rows = version == 4 || (version > 4 && tsr_json_find(root, "rows"));
    if (has_rows) TRY(ctx, read_rows(ctx, &replay->header, root, options));
    return version > 4 ? read_program(ctx, replay, root, options) : TSR_SUCCESS;
}

static tsr_result read_header_fields(tsr_ctx *ctx, tsr_replay *replay, const cJSON *root,
                                     const tsr_json_options *options) {
    const char *text = NULL;
    tsr_record_header *header = &replay->header;
    TRY(ctx, read_format(ctx, replay, root, options));
    if (replay->has_values)
        TRY(ctx, tsr_json_get_u64(ctx, root, "values_of", options, &replay->values_of));
    header->every = 1;
    if (tsr_json_find(root, "every"))
        TRY(ctx, tsr_json_get_u64(ctx, root, "every", options, &header->every));
    if (!header->every)
        FAIL(ctx, options->code, "%s: every is 0; expected at least 1", options->subject);
    TRY(ctx, read_digest(ctx, tsr_json_find(root, "bundle"), options, &header->bundle_hash));
    TRY(ctx, tsr_json_get_string(ctx, root, "numerics", options, &text));
    header->numerics = tsr_arena_strdup(&replay->arena, text);
    TRY(ctx, tsr_json_get_string(ctx, root, "entry", options, &text));
    header->entry = tsr_arena_strdup(&replay->arena, text);
    if (!header->numerics || !header->entry)
        FAIL(ctx, TSR_MEMORY, "%s: no memory", options->subject);
    TRY(ctx, tsr_json_get_u64(ctx, root, "seed", options, &header->seed));
    if (header->seed > UINT32_MAX)
        FAIL(ctx, options->code, "%s: seed is %" PRIu64 "; expected at most %u", options->subject,
             header->seed, UINT32_MAX);
    TRY(ctx, tsr_json_get_u64(ctx, root, "step", options, &header->step));
    TRY(ctx, tsr_json_get_u64(ctx, root, "generation", options, &header->generation));
    TRY(ctx, tsr_json_get_u64(ctx, root, "epoch", options, &header->epoch));
    TRY(ctx, read_data(ctx, replay, root, options));
    return read_tensors(ctx, replay, root, options);
}

static tsr_result read_sums(tsr_ctx *ctx, tsr_replay *replay, const cJSON *root,
                            const tsr_json_options *options, replay_step *step) {
    const cJSON *array = NULL, *item = NULL;
    size_t count = 0, index = 0;
    TRY(ctx, tsr_json_get_array(ctx, root, "sums", options, &array, &count));
    if (count != replay->tensor_count)
        FAIL(ctx, options->code, "%s: %zu sum%s; expected %zu, one per tensor", options->subject,
             count, TSR_PLURAL(count), replay->tensor_count);
    step->sums = TSR_NEW(&replay->arena, tsr_sums, count + 1);
    if (!step->sums) FAIL(ctx, TSR_MEMORY, "%s: no memory", options->subject);
    cJSON_ArrayForEach(item, array) {
        const char *text = cJSON_IsString(item) ? item->valuestring : "";
        if (!tsr_sums_parse(text, strlen(text), &step->sums[index++]))
            FAIL(ctx, options->code, "%s: sums[%zu] is '%.40s'; expected %d hexadecimal digits",
                 options->subject, index - 1, text, TSR_SUMS_HEX);
    }
    return TSR_SUCCESS;
}

static int digit_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Returns NULL if `hex` is not a string of bytes, or if memory is out. */
static const unsigned char *read_bytes(tsr_replay *replay, const char *hex, size_t *out_size) {
    size_t length = strlen(hex);
    unsigned char *bytes = TSR_NEW(&replay->arena, unsigned char, length / 2 + 1);
    for (size_t i = 0; bytes && i < length / 2; i++) {
        int high = digit_of(hex[2 * i]), low = digit_of(hex[2 * i + 1]);
        if (high < 0 || low < 0) return NULL;
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    *out_size = length / 2;
    return length % 2 ? NULL : bytes;
}

/* The digests authenticate the values, and the chain authenticates the digests. */
static tsr_result read_values(tsr_ctx *ctx, tsr_replay *replay, const cJSON *root,
                              const tsr_json_options *options, replay_step *step) {
    const cJSON *array = NULL, *item = NULL;
    size_t count = 0, index = 0;
    TRY(ctx, tsr_json_get_array(ctx, root, "values", options, &array, &count));
    if (count != replay->tensor_count)
        FAIL(ctx, options->code, "%s: values of %zu tensor%s; expected %zu", options->subject,
             count, TSR_PLURAL(count), replay->tensor_count);
    step->values = TSR_NEW(&replay->arena, const unsigned char *, count + 1);
    step->value_bytes = TSR_NEW(&replay->arena, size_t, count + 1);
    if (!step->values || !step->value_bytes)
        FAIL(ctx, TSR_MEMORY, "%s: no memory", options->subject);
    cJSON_ArrayForEach(item, array) {
        const char *hex = cJSON_IsString(item) ? item->valuestring : "x";
        const unsigned char *bytes = read_bytes(replay, hex, &step->value_bytes[index]);
        tsr_digest digest =
            bytes ? tsr_hash_tree(bytes, step->value_bytes[index]) : (tsr_digest){0};
        if (!bytes || !tsr_digest_equal(&digest, &step->digests[index]))
            FAIL(ctx, options->code,
                 "%s: the digest of tensor '%s' does not match its recorded values",
                 options->subject, replay->tensors[index]);
        step->values[index++] = bytes;
    }
    return TSR_SUCCESS;
}

/* A line that was changed, removed or inserted breaks the chain. */
static tsr_result check_chain(tsr_ctx *ctx, tsr_replay *replay, const cJSON *root,
                              const tsr_json_options *options, const replay_step *step) {
    tsr_hasher hasher = chain_begin(&replay->chain, step->step);
    char got[TSR_DIGEST_HEX + 1], expected[TSR_DIGEST_HEX + 1];
    tsr_digest stated;
    tsr_hasher_update(&hasher, step->digests, replay->tensor_count * sizeof *step->digests);
    replay->chain = tsr_hasher_finish(&hasher);
    TRY(ctx, read_digest(ctx, tsr_json_find(root, "chain"), options, &stated));
    if (tsr_digest_equal(&stated, &replay->chain)) return TSR_SUCCESS;
    tsr_digest_format(&stated, got);
    tsr_digest_format(&replay->chain, expected);
    FAIL(ctx, options->code, "%s: the chain is %.16s; the lines before it give %.16s",
         options->subject, got, expected);
}

static tsr_result read_step_fields(tsr_ctx *ctx, tsr_replay *replay, const cJSON *root,
                                   const tsr_json_options *options) {
    const cJSON *array = NULL, *item = NULL;
    size_t count = 0, index = 0;
    replay_step step = {0};
    uint64_t expected, behind;
    if (__builtin_mul_overflow(replay->header.every, replay->step_count, &behind) ||
        __builtin_add_overflow(replay->header.step, behind, &expected))
        FAIL(ctx, options->code, "%s: more than 2^64 steps", options->subject);
    TRY(ctx, tsr_json_get_u64(ctx, root, "step", options, &step.step));
    if (step.step != expected)
        FAIL(ctx, options->code, "%s: step is %" PRIu64 "; expected %" PRIu64, options->subject,
             step.step, expected);
    TRY(ctx, tsr_json_get_array(ctx, root, "digests", options, &array, &count));
    if (count != replay->tensor_count)
        FAIL(ctx, options->code, "%s: %zu digest%s; expected %zu, one per tensor", options->subject,
             count, TSR_PLURAL(count), replay->tensor_count);
    step.digests = TSR_NEW(&replay->arena, tsr_digest, count + 1);
    if (!step.digests) FAIL(ctx, TSR_MEMORY, "%s: no memory", options->subject);
    cJSON_ArrayForEach(item, array)
        TRY(ctx, read_digest(ctx, item, options, &step.digests[index++]));
    if (!replay->is_first_version) {
        TRY(ctx, read_sums(ctx, replay, root, options, &step));
        TRY(ctx, check_chain(ctx, replay, root, options, &step));
    }
    if (replay->has_values && step.step == replay->values_of)
        TRY(ctx, read_values(ctx, replay, root, options, &step));
    replay->steps[replay->step_count++] = step;
    return TSR_SUCCESS;
}

static tsr_result read_line(tsr_ctx *ctx, tsr_replay *replay, const char *text, size_t size_bytes,
                            size_t number) {
    tsr_json_options options = {
        .subject = tsr_arena_printf(&replay->arena, "log '%s', line %zu", replay->path, number),
        .code = TSR_DATA};
    cJSON *root = NULL;
    if (!options.subject) FAIL(ctx, TSR_MEMORY, "no memory for the log '%s'", replay->path);
    TRY(ctx, tsr_json_parse(ctx, text, size_bytes, &options, &root));
    tsr_result result = number == 1 ? read_header_fields(ctx, replay, root, &options)
                                    : read_step_fields(ctx, replay, root, &options);
    tsr_json_destroy(root);
    if (number == 1) replay->chain = tsr_hash(text, size_bytes);
    return result;
}

static size_t count_lines(const char *text, size_t size_bytes) {
    size_t count = 0;
    for (size_t i = 0; i < size_bytes; i++) count += text[i] == '\n';
    return count;
}

static tsr_result read_log(tsr_ctx *ctx, tsr_replay *replay, const char *path) {
    void *bytes = NULL;
    size_t size = 0, number = 0;
    replay->path = tsr_arena_strdup(&replay->arena, path);
    TRY(ctx, tsr_io_read_file(ctx, path, log_bytes_max, &replay->arena, &bytes, &size));
    const char *at = bytes, *end = at + size;
    replay->steps = TSR_NEW(&replay->arena, replay_step, count_lines(at, size) + 1);
    if (!replay->path || !replay->steps) FAIL(ctx, TSR_MEMORY, "no memory for the log '%s'", path);
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (!newline) break;
        TRY(ctx, read_line(ctx, replay, at, (size_t)(newline - at), ++number));
        at = newline + 1;
    }
    if (at < end)
        tsr_log(ctx, TSR_LOG_WARNING, "log '%s': line %zu is unfinished and ignored", path,
                number + 1);
    if (replay->step_count == 0) FAIL(ctx, TSR_DATA, "log '%s' contains no step", path);
    return TSR_SUCCESS;
}

tsr_result tsr_replay_open(tsr_ctx *ctx, const char *path, tsr_replay **out_replay) {
    tsr_replay *replay = calloc(1, sizeof *replay);
    if (!replay) FAIL(ctx, TSR_MEMORY, "no memory for the log '%s'", path);
    tsr_result result = read_log(ctx, replay, path);
    if (result.code)
        tsr_replay_close(replay);
    else
        *out_replay = replay;
    return result;
}

void tsr_replay_close(tsr_replay *replay) {
    if (!replay) return;
    tsr_arena_finish(&replay->arena);
    free(replay);
}

const tsr_record_header *tsr_replay_get_header(const tsr_replay *replay) { return &replay->header; }

uint64_t tsr_replay_get_last_step(const tsr_replay *replay) {
    return replay->steps[replay->step_count - 1].step;
}

bool tsr_replay_takes(const tsr_replay *replay, uint64_t step) {
    return step >= replay->header.step && (step - replay->header.step) % replay->header.every == 0;
}

void tsr_replay_set_locations(tsr_replay *replay, const char *const *locations) {
    replay->locations = locations;
}

/* Finds the first element that differs, if the log has the values of this step. */
static bool find_first(const replay_step *recorded, size_t index, const tsr_tensor *tensor,
                       tsr_difference *out) {
    size_t each = tsr_dtype_size(tensor->dtype), size = (size_t)size_of(tensor);
    if (!recorded->values || recorded->value_bytes[index] != size) return false;
    const unsigned char *was = recorded->values[index], *is = tensor->data;
    for (size_t at = 0; at < size; at += each) {
        if (memcmp(was + at, is + at, each) == 0) continue;
        *out = (tsr_difference){at / each, at / each, tsr_dtype_read(tensor->dtype, was, at / each),
                                tsr_dtype_read(tensor->dtype, is, at / each)};
        return true;
    }
    return false;
}

static tsr_result refuse(tsr_ctx *ctx, const replay_step *recorded, size_t index,
                         const tsr_tensor *tensor, const tsr_digest *digest, const char *location) {
    const char *comma = location ? "; " : "";
    uint64_t step = recorded->step;
    char got[TSR_DIGEST_HEX + 1], expected[TSR_DIGEST_HEX + 1];
    tsr_difference where;
    bool found = find_first(recorded, index, tensor, &where) ||
                 (recorded->sums && tsr_sums_locate(tensor, &recorded->sums[index], &where));
    tsr_digest_format(digest, got);
    tsr_digest_format(&recorded->digests[index], expected);
    if (!found)
        FAIL(ctx, TSR_DIVERGED, "step %" PRIu64 ", tensor '%s': recorded %.16s, replayed %.16s%s%s",
             step, tensor->name, expected, got, comma, location ? location : "");
    if (where.first == where.last)
        FAIL(ctx, TSR_DIVERGED,
             "step %" PRIu64 ", tensor '%s', element %" PRIu64 ": recorded %.9g, replayed %.9g%s%s",
             step, tensor->name, where.first, where.was, where.is, comma, location ? location : "");
    FAIL(ctx, TSR_DIVERGED,
         "step %" PRIu64 ", tensor '%s', several of elements %" PRIu64 " to %" PRIu64
         ": recorded %.16s, replayed %.16s%s%s; a log with the values of step %" PRIu64
         " tells which is the first",
         step, tensor->name, where.first, where.last, expected, got, comma,
         location ? location : "", step);
}

/* Older logs do not track sums computed by collectives: evidence.h. */
static bool may_be_missing(const char *name) {
    static const char *const begins[] = {"all_reduce ", "reduce_scatter "};
    for (size_t i = 0; i < TSR_COUNT(begins); i++)
        if (strncmp(name, begins[i], strlen(begins[i])) == 0) return true;
    return false;
}

tsr_result tsr_replay_check(tsr_ctx *ctx, tsr_replay *replay, uint64_t step,
                            const tsr_tensor *tensors, size_t tensor_count) {
    uint64_t index = tsr_replay_takes(replay, step)
                         ? (step - replay->header.step) / replay->header.every
                         : UINT64_MAX;
    if (index >= replay->step_count)
        FAIL(ctx, TSR_DATA,
             "log '%s' has no step %" PRIu64 "; it contains steps %" PRIu64 " to %" PRIu64,
             replay->path, step, replay->header.step, tsr_replay_get_last_step(replay));
    const char *const *locations = replay->locations;
    if (replay->is_first_version && tensor_count > replay->tensor_count) {
        if (locations) locations += tensor_count - replay->tensor_count;
        tensors += tensor_count - replay->tensor_count; /* evidence comes first */
        tensor_count = replay->tensor_count;
    }
    const replay_step *recorded = &replay->steps[index];
    size_t known = 0; /* number of tensors found in the log */
    for (size_t i = 0; i < tensor_count; i++) {
        bool ends = known == replay->tensor_count;
        if (ends || strcmp(tensors[i].name, replay->tensors[known]) != 0) {
            if (may_be_missing(tensors[i].name)) continue;
            FAIL(ctx, TSR_MISMATCH, "log '%s' tracks tensor '%s'; this program has '%s'",
                 replay->path, ends ? "" : replay->tensors[known], tensors[i].name);
        }
        tsr_digest digest = digest_tensor(&tensors[i]);
        if (!tsr_digest_equal(&digest, &recorded->digests[known]))
            return refuse(ctx, recorded, known, &tensors[i], &digest,
                          locations ? locations[i] : NULL);
        known++;
    }
    if (known < replay->tensor_count)
        FAIL(ctx, TSR_MISMATCH,
             "log '%s' tracks %zu tensor%s; this program has only %zu of these tensors",
             replay->path, replay->tensor_count, TSR_PLURAL(replay->tensor_count), known);
    return TSR_SUCCESS;
}
