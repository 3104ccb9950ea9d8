/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/record/locate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct parts {
    uint64_t count, of_each; /* elements */
    size_t element_bytes;
} parts;

static parts parts_of(const tsr_tensor *tensor) {
    parts p = {.element_bytes = tsr_dtype_size(tensor->dtype)};
    bool fits = tsr_shape_count(&tensor->shape, &p.count);
    TSR_ASSERT(fits);
    p.of_each = p.count / TSR_SUMS_PARTS + (p.count % TSR_SUMS_PARTS != 0);
    return p;
}

static uint64_t begin_of(const parts *p, size_t part) {
    uint64_t begin = p->of_each * part;
    return begin < p->count ? begin : p->count;
}

static uint64_t element_of(const tsr_tensor *tensor, const parts *p, uint64_t index) {
    uint64_t bits = 0;
    memcpy(&bits, (const char *)tensor->data + index * p->element_bytes, p->element_bytes);
    return bits;
}

static uint64_t mix(uint64_t z) {
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static uint64_t hash_of(uint64_t element, uint64_t bits) { return mix(mix(element) ^ bits); }

void tsr_sums_take(const tsr_tensor *tensor, tsr_sums *out_sums) {
    parts p = parts_of(tensor);
    for (size_t k = 0; k < TSR_SUMS_PARTS; k++) {
        uint64_t values = 0, hashes = 0, begin = begin_of(&p, k), end = begin_of(&p, k + 1);
        for (uint64_t i = begin; i < end; i++) {
            uint64_t bits = element_of(tensor, &p, i);
            values += bits;
            hashes += hash_of(i - begin + 1, bits);
        }
        out_sums->of_values[k] = values;
        out_sums->of_hashes[k] = hashes;
    }
}

void tsr_sums_format(const tsr_sums *sums, char out_hex[static TSR_SUMS_HEX + 1]) {
    for (size_t k = 0; k < TSR_SUMS_PARTS; k++)
        snprintf(out_hex + 32 * k, 33, "%016" PRIx64 "%016" PRIx64, sums->of_values[k],
                 sums->of_hashes[k]);
}

static bool parse_number(const char *hex, uint64_t *out_number) {
    uint64_t number = 0;
    for (size_t i = 0; i < 16; i++) {
        char c = hex[i];
        bool is_digit = c >= '0' && c <= '9', is_letter = c >= 'a' && c <= 'f';
        if (!is_digit && !is_letter) return false;
        number = number << 4 | (uint64_t)(is_digit ? c - '0' : c - 'a' + 10);
    }
    *out_number = number;
    return true;
}

bool tsr_sums_parse(const char *hex, size_t length, tsr_sums *out_sums) {
    if (length != TSR_SUMS_HEX) return false;
    for (size_t k = 0; k < TSR_SUMS_PARTS; k++)
        if (!parse_number(hex + 32 * k, &out_sums->of_values[k]) ||
            !parse_number(hex + 32 * k + 16, &out_sums->of_hashes[k]))
            return false;
    return true;
}

static double read_bits(tsr_dtype dtype, uint64_t bits) {
    unsigned char bytes[sizeof bits];
    memcpy(bytes, &bits, sizeof bits);
    return tsr_dtype_read(dtype, bytes, 0);
}

/* Finds a single element whose difference explains both sums. */
static bool find_one(const tsr_tensor *tensor, const parts *p, size_t part, uint64_t values,
                     uint64_t hashes, tsr_difference *out) {
    uint64_t begin = begin_of(p, part), end = begin_of(p, part + 1), at = begin, is = 0, was = 0;
    for (; at < end; at++) {
        is = element_of(tensor, p, at);
        was = is - values;
        if (hash_of(at - begin + 1, is) - hash_of(at - begin + 1, was) == hashes) break;
    }
    if (at == end || values == 0) return false;
    if (p->element_bytes < sizeof was && was >> (8 * p->element_bytes)) return false;
    *out = (tsr_difference){at, at, read_bits(tensor->dtype, was), read_bits(tensor->dtype, is)};
    return true;
}

bool tsr_sums_locate(const tsr_tensor *tensor, const tsr_sums *sums,
                     tsr_difference *out_difference) {
    tsr_sums now;
    parts p = parts_of(tensor);
    tsr_sums_take(tensor, &now);
    for (size_t k = 0; k < TSR_SUMS_PARTS; k++) {
        uint64_t values = now.of_values[k] - sums->of_values[k];
        uint64_t hashes = now.of_hashes[k] - sums->of_hashes[k];
        if (begin_of(&p, k) == begin_of(&p, k + 1) || (values == 0 && hashes == 0)) continue;
        if (!find_one(tensor, &p, k, values, hashes, out_difference))
            *out_difference = (tsr_difference){begin_of(&p, k), begin_of(&p, k + 1) - 1, 0, 0};
        return true;
    }
    return false;
}
