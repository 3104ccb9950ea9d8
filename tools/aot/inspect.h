/* SPDX-License-Identifier: Apache-2.0
 *
 * What tessera-aot inspect shows, gathered once for both of its forms.
 */
#ifndef TSR_TOOLS_AOT_INSPECT_H
#define TSR_TOOLS_AOT_INSPECT_H

#include "bundle/bundle.h"
#include "bundle/provenance.h"
#include "bundle/sign.h"
#include "manifests/fatbin.h"
#include "manifests/program.h"
#include "runtime/base/buffer.h"

/* Bytes of the file by what they are for; each blob counts once. */
typedef struct inspect_section {
    const char *name; /* static storage */
    uint64_t size_bytes;
    size_t blob_count;
} inspect_section;
enum { INSPECT_SECTIONS_MAX = 16 };

/* What the schedule says of itself. */
typedef struct inspect_schedule {
    bool found;
    size_t entry_count, call_count;
    const char *origin; /* in the arena; NULL where it names none */
} inspect_schedule;

typedef struct inspect_view {
    const char *path;
    tsr_bundle *bundle; /* owned */
    tsr_arena arena;
    tsr_config config;
    tsr_program *programs; /* one per target; kernel_count 0 where a target has none */
    tsr_fatbin *codes;     /* one per target; kernel_count 0 where it is for no GPU */
    size_t target_count;
    tsr_signature_report signature;
    tsr_provenance provenance; /* has_provenance: what the bundle says it was built from */
    bool has_provenance;
    inspect_schedule schedule;
    inspect_section sections[INSPECT_SECTIONS_MAX];
    size_t section_count;
    const tsr_config_tensor **by_size; /* the tensors, the largest first */
    bool all_tensors, all_kernels;     /* asked for */
    tsr_holding *holdings;             /* of the tensors; NULL where no target has a program */
} inspect_view;

/* That of the first target; others have the same, but see inspect_away. NULL where no target has a
 * program. */
const tsr_program_entry *inspect_plan(const inspect_view *view, size_t entry);
/* The entry's program for that target, where values of it wait in the host's memory: it has a plan
 * of its own then. Else NULL. */
const tsr_program_entry *inspect_away(const inspect_view *view, size_t target, size_t entry);
/* Bytes of one of the parts in which ranks hold the tensor; 0: it is whole on each. */
uint64_t inspect_part_bytes(const inspect_view *view, const tsr_config_tensor *tensor);
/* The most bytes of the workspace that are in use at once: between the first and the last command
 * that touches a value; values that follow each other in one place count once. */
uint64_t inspect_peak(const tsr_program_entry *plan, tsr_arena *arena);
/* What the kernels of one run of the entry read and write, those of all leaves; without what is
 * only prepared anew where it has changed. */
uint64_t inspect_launch_bytes(const tsr_program_entry *plan, uint64_t virtual_ranks);

uint64_t inspect_ports_bytes(const tsr_config_port *ports, size_t count);
uint64_t inspect_tensor_bytes(const tsr_config_tensor *tensor);
uint64_t inspect_tensors_bytes(const tsr_config *config);

/* Warps of a kernel that a multiprocessor of the target runs at a time; 0 unknown. */
uint32_t inspect_warps(const tsr_fatbin *code, uint32_t kernel);

void inspect_show_text(inspect_view *view, tsr_buffer *out);
void inspect_show_json(inspect_view *view, tsr_buffer *out); /* schemas/inspect.schema.json */

/* Where the commands of a region stand: its first and its last one, which only mark it. */
typedef struct inspect_span {
    uint32_t first, last;
    bool exported;
} inspect_span;
inspect_span inspect_region(const tsr_program_entry *plan, uint32_t region);
const char *inspect_mode(tsr_region_mode mode); /* "replay" */

#endif
