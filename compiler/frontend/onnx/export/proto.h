/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes protocol buffers: a message is the bytes of its fields.
 */
#ifndef TSR_COMPILER_ONNX_PROTO_H
#define TSR_COMPILER_ONNX_PROTO_H

#include "runtime/base/buffer.h"

#include <stddef.h>
#include <stdint.h>

void tsr_proto_int(tsr_buffer *out, uint32_t field, int64_t value);
void tsr_proto_float(tsr_buffer *out, uint32_t field, float value);
void tsr_proto_bytes(tsr_buffer *out, uint32_t field, const void *bytes, size_t size_bytes);
void tsr_proto_text(tsr_buffer *out, uint32_t field, const char *text);
/* The begin of a field of `size_bytes` bytes, which follow. */
void tsr_proto_begin(tsr_buffer *out, uint32_t field, uint64_t size_bytes);
/* Appends the message as a field, and finishes it. */
void tsr_proto_message(tsr_buffer *out, uint32_t field, tsr_buffer *message);

#endif
