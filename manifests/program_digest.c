/* SPDX-License-Identifier: Apache-2.0
 *
 * The program digest of a config. The encoding is normative: manifests/README.md.
 */
#include "manifests/config.h"

#include <string.h>

static const char tag[] = "tessera.program.1"; /* hashed with its NUL */

static void put_number(tsr_hasher *hasher, uint64_t value) {
    uint8_t bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(value >> (8 * i));
    tsr_hasher_update(hasher, bytes, sizeof bytes);
}

static void put_text(tsr_hasher *hasher, const char *text) {
    size_t length = strlen(text);
    put_number(hasher, length);
    tsr_hasher_update(hasher, text, length);
}

static void put_double(tsr_hasher *hasher, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_number(hasher, bits);
}

static void put_tensor(tsr_hasher *hasher, const tsr_config_tensor *tensor) {
    bool drawn = tensor->init == TSR_INIT_UNIFORM || tensor->init == TSR_INIT_NORMAL;
    put_text(hasher, tensor->name);
    put_number(hasher, tensor->role);
    put_text(hasher, tensor->role == TSR_ROLE_STATE ? tensor->of : "");
    put_text(hasher, tensor->role == TSR_ROLE_STATE ? tensor->kind : "");
    put_number(hasher, tensor->dtype);
    put_number(hasher, tensor->shape.rank);
    for (uint32_t i = 0; i < tensor->shape.rank; i++) put_number(hasher, tensor->shape.dims[i]);
    put_number(hasher, tensor->init);
    put_double(hasher, tensor->init == TSR_INIT_DATA ? 0 : tensor->init_a);
    put_double(hasher, drawn ? tensor->init_b : 0);
    put_number(hasher, drawn ? tensor->init_stream : 0);
}

/* Which constants are tensors of the config depends on how ops are grouped, so they are left out:
 * the operations cover the values of all constants. */
tsr_digest tsr_config_program_digest(const tsr_config *config) {
    static const tsr_digest unknown;
    tsr_hasher hasher;
    uint64_t count = 0;
    if (tsr_digest_equal(&config->operations, &unknown)) return unknown;
    for (size_t i = 0; i < config->tensor_count; i++)
        count += config->tensors[i].role != TSR_ROLE_CONSTANT;
    tsr_hasher_init(&hasher);
    tsr_hasher_update(&hasher, tag, sizeof tag);
    put_text(&hasher, config->numerics);
    tsr_hasher_update(&hasher, config->operations.bytes, sizeof config->operations.bytes);
    put_number(&hasher, count);
    for (size_t i = 0; i < config->tensor_count; i++)
        if (config->tensors[i].role != TSR_ROLE_CONSTANT) put_tensor(&hasher, &config->tensors[i]);
    return tsr_hasher_finish(&hasher);
}
