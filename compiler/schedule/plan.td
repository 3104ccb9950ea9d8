// SPDX-License-Identifier: Apache-2.0
//
// Plans in Schedule IR choose ops that share a kernel, layouts of tensors on a mesh, tiles, collectives and
// pipelines, before there are groups. All attributes are optional. Pass tsched-verify, not the verifier of the
// op, looks up names of functions. schedule.td includes this file.

def Tsched_ValueType : TypeDef<Tsched_Dialect, "Value"> {
  let mnemonic = "value";
  let summary = "is a tensor or a group in a plan";
}

def Tsched_FuncType : TypeDef<Tsched_Dialect, "Func"> {
  let mnemonic = "func";
  let summary = "is a fusion group that will become a kernel";
}

class Tsched_PlanOp<string mnemonic, list<Trait> traits = []> : Op<Tsched_Dialect, mnemonic, traits> {
  let hasVerifier = 1;
}

def Tsched_ValueOp : Tsched_PlanOp<"value", [Pure]> {
  let summary = "makes a tensor available to a plan";
  let description = [{
    `%Q = tsched.value %q : tensor<8x16x128x64xf32>`
  }];
  let arguments = (ins AnyRankedTensor:$tensor);
  let results = (outs Tsched_ValueType:$result);
  let assemblyFormat = "$tensor attr-dict `:` type($tensor)";
}

def Tsched_ModuleOp : Tsched_PlanOp<"module", [SingleBlock, NoTerminator]> {
  let summary = "contains a plan";
  let description = [{
    The ops in a plan state which functions become one kernel and which layouts their tensors have.
    tsched.return names the kernels. Pass tsched-apply applies the plan to the ops of the program.

    ```mlir
    tsched.module {
      %attn = tsched.fuse @attention(%Q, %K, %V) {pattern = "flash_attention"}
      tsched.layout %Q {partition = ["batch"], mesh_axes = ["dp"]}
      tsched.tile %attn candidates = [[128, 128, 64], [64, 128, 64]]
      tsched.collective %attn {pattern = "RS_MM_AG", axis = "tp"}
      %f = tsched.materialize %attn : !tsched.func
      tsched.return %f
    }
    ```
  }];
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "attr-dict-with-keyword $body";
}

def Tsched_FuseOp : Tsched_PlanOp<"fuse"> {
  let summary = "puts the ops of a function into one kernel";
  let description = [{
    pattern   the kind of group, for tuning: "flash_attention", "matmul", ...
    source    the author of the choice: "default", "user" or "autotune".
    flops, bytes, time_ns  estimates for one run.
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<Tsched_ValueType>:$inputs,
      OptionalAttr<StrAttr>:$pattern, OptionalAttr<StrAttr>:$source, OptionalAttr<I64Attr>:$flops,
      OptionalAttr<I64Attr>:$bytes, OptionalAttr<I64Attr>:$time_ns);
  let results = (outs Tsched_ValueType:$group);
  let assemblyFormat = "$callee `(` $inputs `)` attr-dict";
}

def Tsched_LayoutOp : Tsched_PlanOp<"layout"> {
  let summary = "defines the layout of a tensor on the mesh (ShardSpec)";
  let description = [{
    partition  the names of the sharded dims, in order.
    mesh_axes  the mesh axis for each of these dims; each axis occurs once.
    order      the names of all dims, outermost first; without it, the sharded dim is the first.

    The layout of a parameter that a training entry reads is obeyed: one dim is split over the axis, each rank
    stores and trains only a part, and the values computed from it stay split.
  }];
  let arguments = (ins Tsched_ValueType:$tensor, OptionalAttr<StrArrayAttr>:$partition,
      OptionalAttr<StrArrayAttr>:$mesh_axes, OptionalAttr<StrArrayAttr>:$order);
  let assemblyFormat = "$tensor attr-dict";
}

def Tsched_TileOp : Tsched_PlanOp<"tile"> {
  let summary = "selects the sizes of a kernel";
  let description = [{
    `tsched.tile %group` chooses sizes for the kernels of a group of a plan, on all targets.
    `tsched.tile kernel @k0_matmul` chooses the sizes of one kernel. Stage plan writes such an op before each
    group of Schedule IR whose kernel has sizes to choose, and stage tile obeys it; a file with such ops is a
    schedule (`tessera-aot build --schedule`).

    candidates  the choices for tuning: arrays of sizes with the same length.
    chosen      the sizes to build: one array, which is one of the candidates if there are any. A model of the
                kernel chooses where a size is 0. If a kernel cannot have these sizes, it is refused.
    loops       one name for each size, outermost first: compiler/schedule/tilings.def.
    source      the author of the choice: "safe" (a rule), "model" (an estimate), "user" or "autotune" (a measurement).
    signature   identifies the group for stored measurements: its ops, its types and a hash.
    safe_ns, measured_ns  with source "autotune": the medians of the model's choice and of the chosen sizes.

    In a schedule:
    target      the target; without it, all targets that have the kernel.
    name        a name under which other ops inherit the sizes. With a name, the kernel is optional.
    base        the name of an earlier op whose sizes this op inherits.
    with        {size = value, ...}: sizes that differ from those of the base.

    ```mlir
    tsched.tile chosen = [6, 16, 96, 2, 256] {name = "wide"}
    tsched.tile kernel @k0_matmul {base = "wide", with = {block_rows = 48}}
    ```
  }];
  let arguments = (ins Optional<Tsched_ValueType>:$group, OptionalAttr<FlatSymbolRefAttr>:$kernel,
      OptionalAttr<ArrayAttr>:$candidates, OptionalAttr<I64ArrayAttr>:$chosen,
      OptionalAttr<StrArrayAttr>:$loops, OptionalAttr<StrAttr>:$source, OptionalAttr<StrAttr>:$kind,
      OptionalAttr<StrAttr>:$target, OptionalAttr<StrAttr>:$name, OptionalAttr<StrAttr>:$base,
      OptionalAttr<DictionaryAttr>:$with, OptionalAttr<StrAttr>:$signature,
      OptionalAttr<I64Attr>:$safe_ns, OptionalAttr<I64Attr>:$measured_ns);
  let assemblyFormat = [{
    ($group^)? (`kernel` $kernel^)? (`candidates` `=` $candidates^)? (`chosen` `=` $chosen^)? attr-dict
  }];
}

def Tsched_CollectiveOp : Tsched_PlanOp<"collective"> {
  let summary = "defines the collective of a group";
  let description = [{
    pattern   "all_reduce", "all_gather", "reduce_scatter", "all_to_all", or "RS_MM_AG": a reduce-scatter, a matmul
              and an all-gather that overlap.
    axis      the axis of the mesh.
    algo      "ring" or "tree".
    topology  a hint: "nvlink", "pcie", "ib" or "shm".
    quantize  "off", "fp8" or "int8": the format in which values are sent.
  }];
  let arguments = (ins Tsched_ValueType:$group, OptionalAttr<StrAttr>:$pattern,
      OptionalAttr<StrAttr>:$axis, OptionalAttr<StrAttr>:$algo, OptionalAttr<StrAttr>:$topology,
      OptionalAttr<StrAttr>:$quantize, OptionalAttr<I64Attr>:$bytes);
  let assemblyFormat = "$group attr-dict";
}

def Tsched_PipelineOp : Tsched_PlanOp<"pipeline"> {
  let summary = "runs a function as a pipeline over an axis of the mesh";
  let description = [{
    `tsched.pipeline @train {axis = "pp", stages = 3, microbatch = 8}`
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, OptionalAttr<StrAttr>:$axis,
      OptionalAttr<I64Attr>:$stages, OptionalAttr<I64Attr>:$microbatch,
      OptionalAttr<StrAttr>:$schedule, OptionalAttr<I64Attr>:$chunks);
  let assemblyFormat = "$callee attr-dict";
}

def Tsched_MaterializeOp : Tsched_PlanOp<"materialize"> {
  let summary = "turns the group into a tsched.func";
  let description = [{
    `%f = tsched.materialize %g : !tsched.func` makes an operand for the plan's tsched.return. Pass tsched-apply
    then fuses the function of the group into one kernel.
  }];
  let arguments = (ins Tsched_ValueType:$group);
  let results = (outs Tsched_FuncType:$func);
  let assemblyFormat = "$group attr-dict `:` type($func)";
}

def Tsched_MeshRegionOp : Tsched_PlanOp<"mesh.region", [SingleBlock, NoTerminator]> {
  let summary = "runs its ops along an axis of the mesh: `with mesh.axis(...)`";
  let description = [{
    `tsched.mesh.region "data" of {data = 4, model = 2} { ... }`

    The mesh is optional inside another mesh.region. Axes that an enclosing region uses cannot be used again.
    Each layout, collective and pipeline in the region names axes of the mesh.
  }];
  let arguments = (ins StrAttr:$axis, OptionalAttr<DictionaryAttr>:$mesh);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$axis (`of` $mesh^)? attr-dict-with-keyword $body";
}

def Tsched_PipelineRegionOp : Tsched_PlanOp<"pipeline.region", [SingleBlock, NoTerminator]> {
  let summary = "contains the stages of a pipeline and their edges: `pipeline.region(schedule=\"1f1b\")`";
  let description = [{
    ```mlir
    tsched.pipeline.region(schedule = "1f1b") attributes {microbatch = 8} {
      %0 = tsched.stage @embed() on 0
      %1 = tsched.stage @head(%0) on 1
    }
    ```

    schedule    "1f1b" or "interleaved".
    stages      the number p of the pipeline's ranks; by default as many as the stages need.
    chunks      the number v of stages on each rank (interleaved): there are p * v stages, stage i on rank i mod p.
    microbatch  the number m of microbatches per step, 1 by default; with interleaved a multiple of p.

    A stage only reads the stage before it. Each stage but the last is read once.
  }];
  let arguments = (ins StrAttr:$schedule, OptionalAttr<I64Attr>:$stages,
      OptionalAttr<I64Attr>:$microbatch, OptionalAttr<I64Attr>:$chunks, OptionalAttr<StrAttr>:$axis);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` `schedule` `=` $schedule `)` attr-dict-with-keyword $body";
}

def Tsched_StageOp : Tsched_PlanOp<"stage", [HasParent<"PipelineRegionOp">]> {
  let summary = "assigns one stage of a pipeline to one of its ranks";
  let description = [{
    `%1 = tsched.stage @head(%0) on 1` runs the function on this rank of the pipeline, 0 <= rank < p. The
    function reads the result of the stage before it.
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<Tsched_ValueType>:$inputs, I64Attr:$rank);
  let results = (outs Tsched_ValueType:$result);
  let assemblyFormat = "$callee `(` $inputs `)` `on` $rank attr-dict";
}
