/* SPDX-License-Identifier: Apache-2.0
 *
 * NumPy's .npy, versions 1.0, 2.0 and 3.0 (numpy.lib.format, NEP 1): magic, version, length, a
 * Python literal, elements. The literal is parsed by hand: one dictionary with the keys descr,
 * fortran_order and shape, each once, in any order.
 */
#include "runtime/base/buffer.h"
#include "runtime/base/io/io.h"
#include "runtime/base/plural.h"
#include "runtime/data/array_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char magic[] = "\x93NUMPY";
enum { MAGIC_BYTES = 6, PREFIX_BYTES = 10, ALIGN_BYTES = 64, GROWTH_DIGITS = 21 };

static const char known_descrs[] = ""
#define X(name, number, size, kind, type, mlir, safetensors, numpy) " " numpy
#include "tessera/dtype.def"
#undef X
    ;

typedef struct literal {
    tsr_ctx *ctx;
    const char *spec, *text;
    size_t at, size;
} literal;

static void skip_spaces(literal *in) {
    while (in->at < in->size && in->text[in->at] == ' ') in->at++;
}

/* Takes `c` if it is the next character after spaces. */
static bool take_char(literal *in, char c) {
    skip_spaces(in);
    if (in->at >= in->size || in->text[in->at] != c) return false;
    in->at++;
    return true;
}

static bool take_word(literal *in, const char *word) {
    size_t length = strlen(word);
    skip_spaces(in);
    if (in->size - in->at < length || memcmp(in->text + in->at, word, length) != 0) return false;
    in->at += length;
    return true;
}

static tsr_result expected(const literal *in, const char *what) {
    char found[TSR_QUOTE_MAX] = "end";
    if (in->at < in->size) tsr_quote(in->text + in->at, 1, found);
    FAIL(in->ctx, TSR_DATA, "'%s': malformed NPY header: '%s' at character %zu; expected %s",
         in->spec, found, in->at, what);
}

static tsr_result parse_string(literal *in, char *out_text, size_t capacity) {
    skip_spaces(in);
    char quote = in->at < in->size ? in->text[in->at] : 0;
    if (quote != '\'' && quote != '"') return expected(in, "a string");
    const char *start = in->text + in->at + 1;
    const char *end = memchr(start, quote, in->size - in->at - 1);
    if (!end || (size_t)(end - start) >= capacity || memchr(start, '\\', (size_t)(end - start)))
        return expected(in, "a short string without escapes");
    memcpy(out_text, start, (size_t)(end - start));
    out_text[end - start] = 0;
    in->at += (size_t)(end - start) + 2;
    return TSR_SUCCESS;
}

static tsr_result parse_descr(literal *in, tsr_dtype *out_dtype) {
    char descr[32], shown[TSR_QUOTE_MAX];
    skip_spaces(in);
    if (in->at < in->size && in->text[in->at] == '[')
        FAIL(in->ctx, TSR_DATA, "'%s' is an array of structures; expected one of%s", in->spec,
             known_descrs);
    TRY(in->ctx, parse_string(in, descr, sizeof descr));
    *out_dtype = tsr_dtype_from_numpy(descr);
    if (*out_dtype != TSR_DTYPE_NONE) return TSR_SUCCESS;
    tsr_quote(descr, strlen(descr), shown);
    if (descr[0] == '>')
        FAIL(in->ctx, TSR_DATA, "'%s' is big-endian (%s); expected little-endian (<%s)", in->spec,
             shown, shown + 1);
    FAIL(in->ctx, TSR_DATA, "'%s' has %s '%s'; expected one of%s", in->spec,
         strcmp(descr, "|O") == 0 ? "Python objects, dtype" : "the dtype", shown, known_descrs);
}

static tsr_result parse_order(literal *in) {
    if (take_word(in, "False")) return TSR_SUCCESS;
    if (take_word(in, "True"))
        FAIL(in->ctx, TSR_DATA,
             "'%s' is in Fortran order; expected C order (numpy.ascontiguousarray)", in->spec);
    return expected(in, "True or False");
}

static tsr_result parse_dim(literal *in, uint64_t *out_dim) {
    uint64_t value = 0;
    size_t start = in->at;
    for (; in->at < in->size && in->text[in->at] >= '0' && in->text[in->at] <= '9'; in->at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(in->text[in->at] - '0'), &value) ||
            value > INT64_MAX)
            return expected(in, "a dimension below 2^63");
    if (in->at == start) return expected(in, "a dimension");
    *out_dim = value;
    return TSR_SUCCESS;
}

static tsr_result parse_shape(literal *in, tsr_shape *out_shape) {
    tsr_shape shape = {0};
    if (!take_char(in, '(')) return expected(in, "a tuple");
    while (!take_char(in, ')')) {
        if (shape.rank == TSR_RANK_MAX)
            FAIL(in->ctx, TSR_DATA, "'%s' has more than %d dimensions", in->spec, TSR_RANK_MAX);
        TRY(in->ctx, parse_dim(in, &shape.dims[shape.rank++]));
        if (take_char(in, ',')) continue;
        if (shape.rank == 1) return expected(in, "',' (a tuple)");
        if (!take_char(in, ')')) return expected(in, "',' or ')'");
        break;
    }
    *out_shape = shape;
    return TSR_SUCCESS;
}

static tsr_result parse_literal(literal *in, tsr_dtype *out_dtype, tsr_shape *out_shape) {
    enum { DESCR = 1, ORDER = 2, SHAPE = 4 };
    char key[32];
    int seen = 0;
    if (!take_char(in, '{')) return expected(in, "'{'");
    while (!take_char(in, '}')) {
        skip_spaces(in);
        size_t start = in->at;
        TRY(in->ctx, parse_string(in, key, sizeof key));
        int field = strcmp(key, "descr") == 0           ? DESCR
                    : strcmp(key, "fortran_order") == 0 ? ORDER
                    : strcmp(key, "shape") == 0         ? SHAPE
                                                        : 0;
        if (!field || (seen & field)) {
            in->at = start;
            return expected(in, "the keys descr, fortran_order, shape, each once");
        }
        seen |= field;
        if (!take_char(in, ':')) return expected(in, "':'");
        if (field == DESCR) TRY(in->ctx, parse_descr(in, out_dtype));
        if (field == ORDER) TRY(in->ctx, parse_order(in));
        if (field == SHAPE) TRY(in->ctx, parse_shape(in, out_shape));
        if (take_char(in, ',')) continue;
        if (!take_char(in, '}')) return expected(in, "',' or '}'");
        break;
    }
    if (seen != (DESCR | ORDER | SHAPE))
        return expected(in, "the keys descr, fortran_order, shape, each once");
    if (!take_char(in, '\n') || in->at != in->size) return expected(in, "spaces and a newline");
    return TSR_SUCCESS;
}

/* Returns the begin and the length of the literal, which may end after the window. */
static tsr_result read_prefix(tsr_ctx *ctx, const tsr_array *array, size_t *out_begin,
                              size_t *out_size) {
    unsigned char prefix[PREFIX_BYTES + 2] = {0};
    const uint64_t have = array->size_bytes;
    if (have < PREFIX_BYTES)
        FAIL(ctx, TSR_DATA, "'%s' has %" PRIu64 " byte%s; an NPY file has at least %d", array->spec,
             have, TSR_PLURAL(have), PREFIX_BYTES);
    TRY(ctx, tsr_array_fetch(ctx, array, 0, prefix,
                             have < sizeof prefix ? PREFIX_BYTES : sizeof prefix));
    if (memcmp(prefix, magic, MAGIC_BYTES) != 0)
        FAIL(ctx, TSR_DATA, "'%s' does not begin with the NPY magic", array->spec);
    unsigned major = prefix[6], minor = prefix[7];
    if (major < 1 || major > 3 || minor != 0)
        FAIL(ctx, TSR_DATA, "'%s' has NPY version %u.%u; expected 1.0, 2.0 or 3.0", array->spec,
             major, minor);
    size_t size = prefix[8] | (size_t)prefix[9] << 8;
    if (major > 1) size |= (size_t)prefix[10] << 16 | (size_t)prefix[11] << 24;
    size_t begin = major > 1 ? PREFIX_BYTES + 2 : PREFIX_BYTES;
    if (size > TSR_NPY_HEADER_MAX)
        FAIL(ctx, TSR_DATA, "'%s' has an NPY header of %zu byte%s; at most %d are accepted",
             array->spec, size, TSR_PLURAL(size), TSR_NPY_HEADER_MAX);
    *out_begin = begin;
    *out_size = size;
    return TSR_SUCCESS;
}

/* Sets dtype and shape from the literal, and returns the bytes of all elements. */
static tsr_result read_literal(tsr_ctx *ctx, tsr_array *array, size_t begin, size_t size,
                               uint64_t *out_elements_bytes) {
    tsr_result result = TSR_SUCCESS;
    tsr_arena scratch = {0};
    char type[TSR_TYPE_TEXT_MAX];
    char *text = TSR_NEW(&scratch, char, size + 1);
    literal in = {ctx, array->spec, text, 0, size};
    if (!text) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to read '%s'", array->spec);
    TRY_GOTO(ctx, result, tsr_array_fetch(ctx, array, begin, text, size));
    TRY_GOTO(ctx, result, parse_literal(&in, &array->dtype, &array->shape));
    if (!tsr_shape_size(&array->shape, array->dtype, out_elements_bytes))
        FAIL_GOTO(ctx, result, TSR_DATA, "'%s' claims to be %s, which is too large", array->spec,
                  tsr_type_format(array->dtype, &array->shape, type));
done:
    tsr_arena_finish(&scratch);
    return result;
}

tsr_result tsr_npy_locate(tsr_ctx *ctx, tsr_array *array, const char *member, tsr_dtype flat) {
    (void)member;
    size_t begin = 0, size = 0;
    uint64_t elements = 0;
    const uint64_t have = array->size_bytes;
    char type[TSR_TYPE_TEXT_MAX];
    TRY(ctx, read_prefix(ctx, array, &begin, &size));
    if (begin + size > have)
        FAIL(ctx, TSR_DATA, "'%s' has %" PRIu64 " byte%s; its NPY header ends at byte %zu",
             array->spec, have, TSR_PLURAL(have), begin + size);
    TRY(ctx, read_literal(ctx, array, begin, size, &elements));
    /* NumPy has one name for all floats of 8 bits: the reader's expectation says which. */
    if (tsr_dtype_is_small(array->dtype) && tsr_dtype_is_small(flat)) array->dtype = flat;
    array->offset_bytes += begin + size;
    array->size_bytes -= begin + size;
    if (elements != array->size_bytes)
        FAIL(ctx, TSR_DATA, "'%s' has %" PRIu64 " byte%s of elements; %s needs %" PRIu64,
             array->spec, array->size_bytes, TSR_PLURAL(array->size_bytes),
             tsr_type_format(array->dtype, &array->shape, type), elements);
    return TSR_SUCCESS;
}

tsr_result tsr_npy_extent(tsr_ctx *ctx, tsr_array *array, uint64_t *out_size_bytes) {
    size_t begin = 0, size = 0;
    uint64_t elements = 0;
    TRY(ctx, read_prefix(ctx, array, &begin, &size));
    if (begin + size <= array->size_bytes)
        TRY(ctx, read_literal(ctx, array, begin, size, &elements));
    *out_size_bytes = begin + size + elements;
    return TSR_SUCCESS;
}

/* Like NumPy's header, with room for dimension 0 to grow in place. */
tsr_result tsr_npy_header(tsr_ctx *ctx, tsr_dtype dtype, const tsr_shape *shape, tsr_arena *arena,
                          void **out_bytes, size_t *out_size_bytes) {
    tsr_result result = TSR_SUCCESS;
    tsr_buffer text = {0};
    TSR_ASSERT(tsr_dtype_size(dtype) && shape->rank <= TSR_RANK_MAX);
    tsr_buffer_append(&text, "\x93NUMPY\1\0\0\0", PREFIX_BYTES);
    tsr_buffer_printf(&text, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                      tsr_dtype_numpy_name(dtype));
    for (uint32_t i = 0; i < shape->rank; i++)
        tsr_buffer_printf(&text, "%s%" PRIu64, i ? ", " : "", shape->dims[i]);
    tsr_buffer_text(&text, shape->rank == 1 ? ",), }" : "), }");
    int digits = snprintf(NULL, 0, "%" PRIu64, shape->dims[0]);
    size_t growth = shape->rank ? (size_t)(GROWTH_DIGITS - digits) : 0;
    size_t used = text.size_bytes + growth + 1;
    tsr_buffer_printf(&text, "%*s\n", (int)(growth + ALIGN_BYTES - used % ALIGN_BYTES), "");
    void *bytes = NULL;
    if (!text.failed) {
        text.bytes[8] = (char)((text.size_bytes - PREFIX_BYTES) & 0xFF);
        text.bytes[9] = (char)((text.size_bytes - PREFIX_BYTES) >> 8);
        bytes = tsr_arena_memdup(arena, text.bytes, text.size_bytes);
    }
    if (!bytes) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for an NPY header");
    *out_bytes = bytes;
    *out_size_bytes = text.size_bytes;
done:
    tsr_buffer_finish(&text);
    return result;
}

tsr_result tsr_npy_write(tsr_ctx *ctx, const char *path, const tsr_tensor *tensor) {
    tsr_result result = TSR_SUCCESS;
    tsr_arena scratch = {0};
    tsr_io_atomic file = {0};
    void *header = NULL;
    size_t header_size = 0;
    uint64_t size = 0;
    bool sane = tsr_shape_size(&tensor->shape, tensor->dtype, &size);
    TSR_ASSERT(sane);
    TRY_GOTO(ctx, result,
             tsr_npy_header(ctx, tensor->dtype, &tensor->shape, &scratch, &header, &header_size));
    TRY_GOTO(ctx, result, tsr_io_atomic_open(ctx, path, &scratch, &file));
    TRY_GOTO(ctx, result, tsr_io_write_all(ctx, file.fd, path, header, header_size, 0));
    TRY_GOTO(ctx, result,
             tsr_io_write_all(ctx, file.fd, path, tensor->data, (size_t)size, header_size));
    TRY_GOTO(ctx, result, tsr_io_atomic_commit(ctx, &file));
done:
    tsr_io_atomic_abandon(ctx, &file);
    tsr_arena_finish(&scratch);
    return result;
}
