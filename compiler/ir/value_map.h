/* SPDX-License-Identifier: Apache-2.0
 *
 * A map from MLIR values to numbers.
 */
#ifndef TSR_COMPILER_IR_VALUE_MAP_H
#define TSR_COMPILER_IR_VALUE_MAP_H

#include "compiler/ir/mlir.h"

/* Zero is an empty map. Its slots are in the arena that tsr_value_map_set is given. */
typedef struct tsr_value_map {
    struct tsr_value_slot *slots;
    size_t count, capacity; /* capacity: a power of two, or 0 */
} tsr_value_map;
/* False when out of memory. Setting a value again replaces its number. */
bool tsr_value_map_set(tsr_value_map *map, tsr_arena *arena, MlirValue value, uint32_t number);
/* UINT32_MAX if absent. */
uint32_t tsr_value_map_get(const tsr_value_map *map, MlirValue value);

#endif
