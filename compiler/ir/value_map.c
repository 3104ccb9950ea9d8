/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing with linear probing, at most half full.
 */
#include "compiler/ir/value_map.h"

typedef struct tsr_value_slot {
    const void *key; /* NULL: free */
    uint32_t number;
} tsr_value_slot;

static tsr_value_slot *find(tsr_value_slot *slots, size_t capacity, const void *key) {
    uint64_t hash = (uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(hash >> 32) & (capacity - 1);
    while (slots[at].key && slots[at].key != key) at = (at + 1) & (capacity - 1);
    return &slots[at];
}

bool tsr_value_map_set(tsr_value_map *map, tsr_arena *arena, MlirValue value, uint32_t number) {
    if (2 * (map->count + 1) > map->capacity) {
        size_t capacity = map->capacity ? 2 * map->capacity : 64;
        tsr_value_slot *larger = TSR_NEW(arena, tsr_value_slot, capacity);
        if (!larger) return false;
        for (size_t i = 0; i < map->capacity; i++)
            if (map->slots[i].key) *find(larger, capacity, map->slots[i].key) = map->slots[i];
        map->slots = larger;
        map->capacity = capacity;
    }
    tsr_value_slot *slot = find(map->slots, map->capacity, value.ptr);
    map->count += slot->key == NULL;
    *slot = (tsr_value_slot){.key = value.ptr, .number = number};
    return true;
}

uint32_t tsr_value_map_get(const tsr_value_map *map, MlirValue value) {
    if (map->capacity == 0) return UINT32_MAX;
    const tsr_value_slot *slot = find(map->slots, map->capacity, value.ptr);
    return slot->key ? slot->number : UINT32_MAX;
}
