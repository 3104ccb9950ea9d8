/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/frontend/onnx/export/proto.h"

#include <string.h>

enum { WIRE_VARINT = 0, WIRE_LENGTH = 2, WIRE_FIXED32 = 5 };

static void put_varint(tsr_buffer *out, uint64_t value) {
    unsigned char bytes[10];
    size_t count = 0;
    do {
        bytes[count] = (unsigned char)(value & 0x7f) | (value > 0x7f ? 0x80 : 0);
        value >>= 7;
        count++;
    } while (value);
    tsr_buffer_append(out, bytes, count);
}

static void put_key(tsr_buffer *out, uint32_t field, unsigned wire) {
    put_varint(out, (uint64_t)field << 3 | wire);
}

void tsr_proto_int(tsr_buffer *out, uint32_t field, int64_t value) {
    put_key(out, field, WIRE_VARINT);
    put_varint(out, (uint64_t)value);
}

void tsr_proto_float(tsr_buffer *out, uint32_t field, float value) {
    put_key(out, field, WIRE_FIXED32);
    tsr_buffer_append(out, &value, sizeof value);
}

void tsr_proto_begin(tsr_buffer *out, uint32_t field, uint64_t size_bytes) {
    put_key(out, field, WIRE_LENGTH);
    put_varint(out, size_bytes);
}

void tsr_proto_bytes(tsr_buffer *out, uint32_t field, const void *bytes, size_t size_bytes) {
    tsr_proto_begin(out, field, size_bytes);
    tsr_buffer_append(out, bytes, size_bytes);
}

void tsr_proto_text(tsr_buffer *out, uint32_t field, const char *text) {
    tsr_proto_bytes(out, field, text, strlen(text));
}

void tsr_proto_message(tsr_buffer *out, uint32_t field, tsr_buffer *message) {
    if (message->failed) out->failed = true;
    tsr_proto_bytes(out, field, message->bytes ? message->bytes : "", message->size_bytes);
    tsr_buffer_finish(message);
}
