/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads protocol buffers in their wire format by tables of fields. Bytes are borrowed from the
 * buffer, everything else is in an arena. The bytes are untrusted: depth and counts have limits,
 * unknown fields are skipped.
 *
 *     static const tsr_wire_field fields[] = {
 *         {1, TSR_WIRE_TEXT, offsetof(thing, name), NULL},
 *         {2, TSR_WIRE_MESSAGES, offsetof(thing, parts), &part_message}};
 *     const tsr_wire_message thing_message = {"Thing", sizeof(thing), 2, fields};
 *
 * Format: https://protobuf.dev/programming-guides/encoding
 */
#ifndef TSR_COMPILER_ONNX_WIRE_H
#define TSR_COMPILER_ONNX_WIRE_H

#include "runtime/base/arena.h"

enum {
    TSR_WIRE_DEPTH_MAX = 64,      /* messages in messages */
    TSR_WIRE_ITEMS_MAX = 1 << 24, /* messages, texts and numbers of a file that take memory */
};

typedef struct tsr_wire_span {
    const uint8_t *bytes; /* borrowed; NULL: the field is absent */
    size_t size_bytes;
} tsr_wire_span;

/* A list of any kind: `items` points to the elements, in the arena. */
typedef struct tsr_wire_list {
    void *items;
    size_t count;
} tsr_wire_list;

/* What a field becomes at its offset. */
typedef enum tsr_wire_kind {
    TSR_WIRE_TEXT,     /* const char *: a copy that ends with a NUL */
    TSR_WIRE_BYTES,    /* tsr_wire_span */
    TSR_WIRE_INT,      /* int64_t */
    TSR_WIRE_F32,      /* float */
    TSR_WIRE_MESSAGE,  /* pointer to the struct of `message` */
    TSR_WIRE_TEXTS,    /* tsr_wire_list of const char * */
    TSR_WIRE_SPANS,    /* tsr_wire_list of tsr_wire_span */
    TSR_WIRE_INTS,     /* tsr_wire_list of int64_t, packed or not */
    TSR_WIRE_F32S,     /* tsr_wire_list of float, packed or not */
    TSR_WIRE_F64S,     /* tsr_wire_list of double, packed or not */
    TSR_WIRE_MESSAGES, /* tsr_wire_list of the struct of `message` */
} tsr_wire_kind;

struct tsr_wire_message;
typedef struct tsr_wire_field {
    uint32_t number;
    tsr_wire_kind kind;
    size_t offset;
    const struct tsr_wire_message *message; /* MESSAGE and MESSAGES */
    size_t given; /* offset of a bool that says whether the field is there; 0: no such bool */
} tsr_wire_field;

typedef struct tsr_wire_message {
    const char *name; /* for messages */
    size_t size_bytes;
    size_t field_count;
    const tsr_wire_field *fields;
} tsr_wire_message;

/* Reads `span` into the struct of `message`, which is zeroed. Absent texts are "". Fails with
 * TSR_COMPILE where the bytes are no such message; the text names message and offset. */
TSR_RESULT tsr_wire_read(tsr_ctx *ctx, tsr_arena *arena, const tsr_wire_message *message,
                         tsr_wire_span span, void *out_struct);

#endif
