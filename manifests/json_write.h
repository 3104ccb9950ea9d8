/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to manifests/: pieces of canonical JSON that the config and the deployment manifest
 * share.
 */
#ifndef TSR_MANIFESTS_JSON_WRITE_H
#define TSR_MANIFESTS_JSON_WRITE_H

#include "manifests/config.h"
#include "runtime/base/buffer.h"

/* Writes `,"dtype":"f32","shape":[64,128]`. */
void tsr_json_write_type(tsr_buffer *out, tsr_dtype dtype, const tsr_shape *shape);
/* Writes `"name":"train","kind":"train","batch":64`. */
void tsr_json_write_entry_head(tsr_buffer *out, const tsr_config_entry *entry);
/* Writes `,"KEY":[{"name":…,"dtype":…,"shape":[…],"source":"data"}, …]`: the source for inputs
 * only, and hyper-parameters only in a config. */
typedef enum tsr_json_ports {
    TSR_JSON_OUTPUTS,
    TSR_JSON_INPUTS,       /* of a stage of the deployment manifest */
    TSR_JSON_CONFIG_INPUTS /* of an entry of the config */
} tsr_json_ports;
void tsr_json_write_ports(tsr_buffer *out, const char *key, const tsr_config_port *ports,
                          size_t count, tsr_json_ports of);
/* Copies the text to the arena, NUL-terminated; TSR_MEMORY when the buffer failed. */
TSR_RESULT tsr_json_take(tsr_ctx *ctx, const tsr_buffer *buffer, const char *subject,
                         tsr_arena *arena, char **out_json, size_t *out_size_bytes);

#endif
