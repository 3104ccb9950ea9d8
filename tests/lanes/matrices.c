/* SPDX-License-Identifier: Apache-2.0
 *
 * MFMA and WMMA as functions of a wave. Sources of the places of elements: AMD, "Instinct MI300
 * Instruction Set Architecture" and "CDNA 4", chapter "Matrix Arithmetic Instructions"; "RDNA 3"
 * and "RDNA 4", section "Wave Matrix Multiply Accumulate".
 *
 * The documents do not say in which order the hardware adds, nor how often it rounds: here products
 * are added in f64 and the sum is rounded once.
 */
#include "tests/lanes/matrices.h"

#include <stdbool.h>
#include <string.h>

enum { SIZE = LANES_MATRIX_SIZE, DEPTH_MAX = 32 };
typedef enum type { F16, BF16, F32 } type;

static const struct {
    uint32_t elements, lanes, depth;
    type type;
} rows[] = {
#define X(id, name, elements, lanes, depth, type) {elements, lanes, depth, type},
    LANES_MATRICES(X)
#undef X
};

/* Both halves of the wave have all of K. */
static bool is_doubled(lanes_matrix_id id) {
    return rows[id].elements == rows[id].depth && rows[id].lanes > SIZE;
}

uint32_t lanes_matrix_lanes(lanes_matrix_id id) { return rows[id].lanes; }

void lanes_position_of_operand(lanes_matrix_id id, uint32_t lane, uint32_t element,
                               uint32_t *out_row, uint32_t *out_k) {
    *out_row = lane % SIZE;
    *out_k = is_doubled(id) ? element : lane / SIZE * rows[id].elements + element;
}

void lanes_position_of_result(lanes_matrix_id id, uint32_t lane, uint32_t element,
                              uint32_t *out_row, uint32_t *out_column) {
    uint32_t each = SIZE * SIZE / rows[id].lanes;
    *out_column = lane % SIZE;
    *out_row = is_doubled(id) ? 2 * element + lane / SIZE : lane / SIZE * each + element;
}

static double widen_f16(uint16_t bits) {
    enum { FRACTION_BITS = 10, FRACTION_BITS_64 = 52, BIAS = 15, BIAS_64 = 1023, EXPONENT = 31 };
    uint64_t fraction = bits & ((1U << FRACTION_BITS) - 1), wide;
    uint64_t exponent = bits >> FRACTION_BITS & EXPONENT;
    double value = (double)fraction / (1U << (FRACTION_BITS + BIAS - 1)); /* a denormal number */
    if (exponent) {
        exponent = exponent == EXPONENT ? 2 * BIAS_64 + 1 : exponent - BIAS + BIAS_64;
        wide = exponent << FRACTION_BITS_64 | fraction << (FRACTION_BITS_64 - FRACTION_BITS);
        memcpy(&value, &wide, sizeof value);
    }
    return bits >> 15 ? -value : value;
}

static double widen_bf16(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static double read_element(type t, const void *from, uint32_t element) {
    uint16_t bits;
    float value;
    if (t == F32) {
        memcpy(&value, (const char *)from + element * sizeof value, sizeof value);
        return value;
    }
    memcpy(&bits, (const char *)from + element * sizeof bits, sizeof bits);
    return t == F16 ? widen_f16(bits) : widen_bf16(bits);
}

/* False if lanes that must have the same elements have different ones. */
static bool collect(lanes_matrix_id id, const void *const *operands, double (*out)[DEPTH_MAX]) {
    bool same = true, known[SIZE][DEPTH_MAX] = {{false}};
    for (uint32_t lane = 0; lane < rows[id].lanes; lane++)
        for (uint32_t e = 0; e < rows[id].elements; e++) {
            uint32_t row, k;
            lanes_position_of_operand(id, lane, e, &row, &k);
            double value = read_element(rows[id].type, operands[lane], e);
            if (known[row][k]) same = same && memcmp(&out[row][k], &value, sizeof value) == 0;
            known[row][k] = true;
            out[row][k] = value;
        }
    return same;
}

bool lanes_multiply(lanes_matrix_id id, const void *const *first, const void *const *second,
                    const void *const *sums, void *const *results) {
    double a[SIZE][DEPTH_MAX], b[SIZE][DEPTH_MAX];
    bool same = collect(id, first, a);
    same = collect(id, second, b) && same;
    for (uint32_t lane = 0; lane < rows[id].lanes; lane++)
        for (uint32_t e = 0; e < SIZE * SIZE / rows[id].lanes; e++) {
            uint32_t row, column;
            lanes_position_of_result(id, lane, e, &row, &column);
            double sum = read_element(F32, sums[lane], e);
            for (uint32_t k = 0; k < rows[id].depth; k++) sum += a[row][k] * b[column][k];
            float rounded = (float)sum;
            memcpy((char *)results[lane] + e * sizeof rounded, &rounded, sizeof rounded);
        }
    return same;
}
