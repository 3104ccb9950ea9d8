// SPDX-License-Identifier: Apache-2.0
//
// Schedule IR: dialect `tsched`. A `tsched.func` is a fusion group, a future kernel; an entry calls
// its groups with `tsched.call`. The rules of the kinds are checked in C (verify.c). The ops of
// plan.td choose groups, layouts and tiles before the groups exist.
#ifndef TSR_SCHEDULE_TD
#define TSR_SCHEDULE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tsched_Dialect : Dialect {
  let name = "tsched";
  let cppNamespace = "::tessera::schedule";
  let useDefaultTypePrinterParser = 1;
}

def Tsched_FuncOp : Op<Tsched_Dialect, "func", [FunctionOpInterface, IsolatedFromAbove]> {
  let summary = "a fusion group: what one kernel computes";
  let description = [{
    Graph IR ops from the group's inputs to its outputs.

    ```mlir
    tsched.func @k0_matmul_add_relu(%a: tensor<64x64xf32>, %b: tensor<64x128xf32>, %c: tensor<128xf32>)
        -> tensor<64x128xf32> attributes {kind = "matmul", source = "default"} {
      %0 = tessera.matmul %a, %b : tensor<64x64xf32>, tensor<64x128xf32> -> tensor<64x128xf32>
      %1 = tessera.add %0, %c : tensor<64x128xf32>, tensor<128xf32> -> tensor<64x128xf32>
      %2 = tessera.relu %1 : tensor<64x128xf32>
      tsched.return %2 : tensor<64x128xf32>
    }
    ```

    kind    "map": elementwise ops over one shape, or a lone transpose or reshape; "matmul",
            "reduce": one such op, elementwise ops before (reduce) and after; the name of the op for
            a group of one other op; "rows": reductions over the same dims and elementwise ops
            anywhere around them; "pack": what a tensor becomes once, not at each run.
    source  who chose: "default" (the cost model), "user" (a plan) or "autotune".
    tile    sizes for the kernel's tiles, family by family (compiler/tile/README.md); 0 or absent: chosen
            by the kernel's own model.
    flops, bytes  estimates for one run: floating-point operations, bytes read and written.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
      StrAttr:$kind, OptionalAttr<StrAttr>:$source, OptionalAttr<I64ArrayAttr>:$tile,
      OptionalAttr<I64Attr>:$flops, OptionalAttr<I64Attr>:$bytes,
      OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::mlir::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
  }];
}

def Tsched_CallOp : Op<Tsched_Dialect, "call",
    [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a fusion group, or the kernel it has become";
  let description = "`%y = tsched.call @group(%x) : (tensor<4xf32>) -> tensor<4xf32>`";
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<AnyRankedTensor>:$inputs);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let assemblyFormat = "$callee `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)";
}

def Tsched_PackOp : Op<Tsched_Dialect, "pack", [Pure, HasParent<"FuncOp">]> {
  let summary = "a matrix in the order in which products read it";
  let description = [{
    Strips of as many columns as 64 bytes hold, each with all rows one after the other; zeros where
    the last strip is wider than the matrix: result[s][k][c] = matrix[k][s * width + c], or
    matrix[s * width + c][k] with `transpose`. All dims before the last are one.

    `%p = tsched.pack %w : tensor<768x100xf32> -> tensor<7x768x16xf32>`

    pairs  of rows, for dot products of bf16: result[s][k][2 c + i] = matrix[2 k + i][s * width + c] where
           64 bytes hold `width` pairs; a zero stands for the row behind an odd last one.

    Strips of f32 hold what a matrix of bf16 or f16 is in f32.
  }];
  let arguments = (ins AnyRankedTensor:$matrix, DefaultValuedAttr<BoolAttr, "false">:$transpose,
      DefaultValuedAttr<BoolAttr, "false">:$pairs);
  let results = (outs AnyRankedTensor:$strips);
  let assemblyFormat = "$matrix attr-dict `:` type($matrix) `->` type($strips)";
}

def Tsched_UnpackOp : Op<Tsched_Dialect, "unpack", [Pure, HasParent<"FuncOp">]> {
  let summary = "the matrix that lies in strips";
  let description = [{
    What `tsched.pack` took; second operand of the group's matmul, or conv2d without groups, and of
    nothing else, so that nothing is ever moved back.

    `%w = tsched.unpack %p : tensor<7x768x16xf32> -> tensor<768x100xf32>`

    A matmul's matrix may be of bf16 or f16 and lie in strips of f32, or the other way round.
  }];
  let arguments = (ins AnyRankedTensor:$strips, DefaultValuedAttr<BoolAttr, "false">:$pairs);
  let results = (outs AnyRankedTensor:$matrix);
  let assemblyFormat = "$strips attr-dict `:` type($strips) `->` type($matrix)";
}

def Tsched_ReturnOp : Op<Tsched_Dialect, "return", [Pure, Terminator, ParentOneOf<["FuncOp", "ModuleOp"]>]> {
  let summary = "outputs of a fusion group, or what a plan makes";
  let description = [{
    `tsched.return %0 : tensor<4xf32>` in a `tsched.func`; `tsched.return %f` in a `tsched.module`, where
    every operand is a `!tsched.func`.
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

include "compiler/schedule/plan.td"

#endif
