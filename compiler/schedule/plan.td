// SPDX-License-Identifier: Apache-2.0
//
// Plans in Schedule IR: which ops share a kernel, how tensors are laid out on a mesh, tiles, collectives and
// pipelines, before there are groups. All attributes may be left out; pass tsched-verify,
// not the verifier of the op, looks up names of functions. Included by schedule.td.

def Tsched_ValueType : TypeDef<Tsched_Dialect, "Value"> {
  let mnemonic = "value";
  let summary = "a tensor or a group, as plans speak of it";
}

def Tsched_FuncType : TypeDef<Tsched_Dialect, "Func"> {
  let mnemonic = "func";
  let summary = "a fusion group that is to become a kernel";
}

class Tsched_PlanOp<string mnemonic, list<Trait> traits = []> : Op<Tsched_Dialect, mnemonic, traits> {
  let hasVerifier = 1;
}

def Tsched_ValueOp : Tsched_PlanOp<"value", [Pure]> {
  let summary = "a tensor as plans speak of it";
  let description = "`%Q = tsched.value %q : tensor<8x16x128x64xf32>`";
  let arguments = (ins AnyRankedTensor:$tensor);
  let results = (outs Tsched_ValueType:$result);
  let assemblyFormat = "$tensor attr-dict `:` type($tensor)";
}

def Tsched_ModuleOp : Tsched_PlanOp<"module", [SingleBlock, NoTerminator]> {
  let summary = "a plan";
  let description = [{
    Holds ops that say which functions become one kernel and how their tensors lie; tsched.return names the
    kernels. Pass tsched-apply gives what it says to the ops it speaks of.

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
  let summary = "the ops of a function shall share a kernel";
  let description = [{
    pattern   what the group is, for tuning: "flash_attention", "matmul", ...
    source    who chose: "default", "user" or "autotune".
    flops, bytes, time_ns  estimates for one run.
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<Tsched_ValueType>:$inputs,
      OptionalAttr<StrAttr>:$pattern, OptionalAttr<StrAttr>:$source, OptionalAttr<I64Attr>:$flops,
      OptionalAttr<I64Attr>:$bytes, OptionalAttr<I64Attr>:$time_ns);
  let results = (outs Tsched_ValueType:$group);
  let assemblyFormat = "$callee `(` $inputs `)` attr-dict";
}

def Tsched_LayoutOp : Tsched_PlanOp<"layout"> {
  let summary = "ShardSpec: how a tensor lies on the mesh";
  let description = [{
    partition  names of the dims that are cut, in order.
    mesh_axes  the axis of the mesh that each of them is cut over; none twice.
    order      names of all dims, outermost first, where they are not stored as declared.
  }];
  let arguments = (ins Tsched_ValueType:$tensor, OptionalAttr<StrArrayAttr>:$partition,
      OptionalAttr<StrArrayAttr>:$mesh_axes, OptionalAttr<StrArrayAttr>:$order);
  let assemblyFormat = "$tensor attr-dict";
}

def Tsched_TileOp : Tsched_PlanOp<"tile"> {
  let summary = "sizes of a group's tiles";
  let description = [{
    candidates  what tuning may choose from: arrays of sizes of one length.
    chosen      what is built: one array of sizes, one of the candidates if there are any.
    loops       the loop nest, outermost first; one name for each size.
    source      who chose: "default", "user" or "autotune".
  }];
  let arguments = (ins Tsched_ValueType:$group, OptionalAttr<ArrayAttr>:$candidates,
      OptionalAttr<I64ArrayAttr>:$chosen, OptionalAttr<StrArrayAttr>:$loops,
      OptionalAttr<StrAttr>:$source);
  let assemblyFormat = [{
    $group (`candidates` `=` $candidates^)? (`chosen` `=` $chosen^)? attr-dict
  }];
}

def Tsched_CollectiveOp : Tsched_PlanOp<"collective"> {
  let summary = "what a group exchanges, and how";
  let description = [{
    pattern   "all_reduce", "all_gather", "reduce_scatter", "all_to_all", or "RS_MM_AG": reduce-scatter,
              matmul and all-gather that overlap.
    axis      the axis of the mesh.
    algo      "ring" or "tree".
    topology  hint: "nvlink", "pcie", "ib" or "shm".
    quantize  "off", "fp8" or "int8": how values travel.
  }];
  let arguments = (ins Tsched_ValueType:$group, OptionalAttr<StrAttr>:$pattern,
      OptionalAttr<StrAttr>:$axis, OptionalAttr<StrAttr>:$algo, OptionalAttr<StrAttr>:$topology,
      OptionalAttr<StrAttr>:$quantize, OptionalAttr<I64Attr>:$bytes);
  let assemblyFormat = "$group attr-dict";
}

def Tsched_PipelineOp : Tsched_PlanOp<"pipeline"> {
  let summary = "a function runs as a pipeline over an axis of the mesh";
  let description = "`tsched.pipeline @train {axis = \"pp\", stages = 3, microbatch = 8}`";
  let arguments = (ins FlatSymbolRefAttr:$callee, OptionalAttr<StrAttr>:$axis,
      OptionalAttr<I64Attr>:$stages, OptionalAttr<I64Attr>:$microbatch,
      OptionalAttr<StrAttr>:$schedule, OptionalAttr<I64Attr>:$chunks);
  let assemblyFormat = "$callee attr-dict";
}

def Tsched_MaterializeOp : Tsched_PlanOp<"materialize"> {
  let summary = "the group becomes a tsched.func";
  let description = [{
    `%f = tsched.materialize %g : !tsched.func`, for the plan's tsched.return. Pass tsched-apply has the
    function that the group names fused as one kernel.
  }];
  let arguments = (ins Tsched_ValueType:$group);
  let results = (outs Tsched_FuncType:$func);
  let assemblyFormat = "$group attr-dict `:` type($func)";
}

def Tsched_MeshRegionOp : Tsched_PlanOp<"mesh.region", [SingleBlock, NoTerminator]> {
  let summary = "`with mesh.axis(...)`: what stands inside runs along an axis of the mesh";
  let description = [{
    `tsched.mesh.region "data" of {data = 4, model = 2} { ... }`

    The mesh may be left out inside another mesh.region. Axes in use outside cannot be used again; every
    layout, collective and pipeline inside names axes of the mesh.
  }];
  let arguments = (ins StrAttr:$axis, OptionalAttr<DictionaryAttr>:$mesh);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$axis (`of` $mesh^)? attr-dict-with-keyword $body";
}

def Tsched_PipelineRegionOp : Tsched_PlanOp<"pipeline.region", [SingleBlock, NoTerminator]> {
  let summary = "`pipeline.region(schedule=\"1f1b\")`: stages, and the edges between them";
  let description = [{
    ```mlir
    tsched.pipeline.region(schedule = "1f1b") attributes {microbatch = 8} {
      %0 = tsched.stage @embed() on 0
      %1 = tsched.stage @head(%0) on 1
    }
    ```

    schedule    "1f1b" or "interleaved".
    stages      ranks p of the pipeline, else as many as its stages need; chunks v (interleaved) are the stages of each rank, so that there
                are p * v stages, stage i on rank i mod p.
    microbatch  microbatches m of a step, else 1; interleaved: a multiple of p.

    A stage reads the stage before it alone; all but the last are read once.
  }];
  let arguments = (ins StrAttr:$schedule, OptionalAttr<I64Attr>:$stages,
      OptionalAttr<I64Attr>:$microbatch, OptionalAttr<I64Attr>:$chunks, OptionalAttr<StrAttr>:$axis);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` `schedule` `=` $schedule `)` attr-dict-with-keyword $body";
}

def Tsched_StageOp : Tsched_PlanOp<"stage", [HasParent<"PipelineRegionOp">]> {
  let summary = "one stage of a pipeline, on a rank of it";
  let description = [{
    `%1 = tsched.stage @head(%0) on 1`: the function runs on that rank of the pipeline, which is
    0 <= rank < p, and reads the stage before it.
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<Tsched_ValueType>:$inputs, I64Attr:$rank);
  let results = (outs Tsched_ValueType:$result);
  let assemblyFormat = "$callee `(` $inputs `)` `on` $rank attr-dict";
}
