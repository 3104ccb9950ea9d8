// SPDX-License-Identifier: Apache-2.0
//
// Target IR: dialect `tessera_target`. A module for one target: kernels, the device code they run, and
// a host function for each entry, where every buffer has its place. The rules are checked in C
// (host/verify.c).
#ifndef TSR_TARGET_TD
#define TSR_TARGET_TD

include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/BuiltinTypes.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Target_Dialect : Dialect {
  let name = "tessera_target";
  let cppNamespace = "::tessera::target";
}

class Target_Op<string mnemonic, list<Trait> traits = []> : Op<Target_Dialect, mnemonic, traits> {
  let hasVerifier = 1;
}
class Target_SymbolUse<string mnemonic, list<Trait> traits = []>
    : Target_Op<mnemonic, traits # [DeclareOpInterfaceMethods<SymbolUserOpInterface>]>;

// Its element type is the host's: one of a tensor's.
def Target_Buffer : StaticShapeMemRefOf<[AnyType]>;

//===--- what a module holds ---------------------------------------------------------------------===//

def Target_KernelOp : Target_SymbolUse<"kernel", [Symbol]> {
  let summary = "what the host knows of a kernel";
  let description = [{
    ```mlir
    tessera_target.kernel @k0 : (memref<64xf32>) -> memref<64xf32> grid 4 {bytes = 512 : i64}
    ```

    Buffers read, then buffers written, as the device stores them (`ui8` and `i1` are `i8`). The body is
    the `tile.func` of the same name in the module `@device`; it has these arguments and this grid.

    grid      programs of one launch, at least 1.
    in_place  inputs that an output of the same type may lie over.
    faults    it can report a bad index.
    flops, bytes  estimates for one launch, for messages and expected durations.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
      I64Attr:$grid, OptionalAttr<I64ArrayAttr>:$in_place, OptionalAttr<UnitAttr>:$faults,
      OptionalAttr<I64Attr>:$flops, OptionalAttr<I64Attr>:$bytes);
  let assemblyFormat = "$sym_name `:` $function_type `grid` $grid attr-dict";
}

def Target_DataOp : Target_Op<"data"> {
  let summary = "the elements of a tensor that has no init rule";
  let description = "`tessera_target.data \"w\" dense<[1.0, 2.0]> : tensor<2xf32>`";
  let arguments = (ins StrAttr:$name, ElementsAttr:$value);
  let assemblyFormat = "$name $value attr-dict";
}

def Target_DocumentOp : Target_Op<"document"> {
  let summary = "a text that the bundle carries and no later stage reads in another form";
  let description = [{
    `tessera_target.document "config" "{...}"`

    Stands at the end of a written module, so that the module alone is enough to go on from.

    name      what the model is called where its module has no name
    graph     the source as Graph IR, with locations
    schedule  the groups and what each entry runs, as JSON
    config    tensors, their init rules, entries and their ports, as JSON (manifests/config.h)
  }];
  let arguments = (ins StrAttr:$kind, StrAttr:$text);
  let assemblyFormat = "$kind $text attr-dict";
}

def Target_FuncOp : Target_Op<"func", [Symbol, IsolatedFromAbove, SingleBlock, NoTerminator]> {
  let summary = "the host program of an entry: buffers, then commands in order";
  let description = [{
    ```mlir
    tessera_target.func @infer workspace 256 {
      %w = tessera_target.tensor "w" : memref<64xf32>
      %x = tessera_target.input 0 : memref<64xf32>
      %h = tessera_target.alloc offset 0 : memref<64xf32>
      %y = tessera_target.output 0 : memref<64xf32>
      tessera_target.launch @k0(%x, %w) writes(%h) : (memref<64xf32>, memref<64xf32>) -> memref<64xf32>
      tessera_target.copy %y, %h : memref<64xf32>
    }
    ```

    workspace  bytes, a multiple of 64.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$workspace);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `workspace` $workspace attr-dict-with-keyword $body";
}

//===--- buffers ---------------------------------------------------------------------------------===//

class Target_Place<string mnemonic> : Target_Op<mnemonic, [HasParent<"FuncOp">]> {
  let results = (outs Target_Buffer:$result);
}

def Target_TensorOp : Target_Place<"tensor"> {
  let summary = "a parameter, state or constant, where it lies";
  let arguments = (ins StrAttr:$name);
  let assemblyFormat = "$name attr-dict `:` type($result)";
}

def Target_InputOp : Target_Place<"input"> {
  let summary = "an input of the entry, by its index";
  let arguments = (ins I64Attr:$index);
  let assemblyFormat = "$index attr-dict `:` type($result)";
}

def Target_OutputOp : Target_Place<"output"> {
  let summary = "an output of the entry, by its index";
  let arguments = (ins I64Attr:$index);
  let assemblyFormat = "$index attr-dict `:` type($result)";
}

def Target_AllocOp : Target_Place<"alloc"> {
  let summary = "a part of the workspace: offset in bytes, a multiple of 64";
  let arguments = (ins I64Attr:$offset);
  let assemblyFormat = "`offset` $offset attr-dict `:` type($result)";
}

//===--- commands --------------------------------------------------------------------------------===//

def Target_LaunchOp : Target_SymbolUse<"launch", [HasParent<"FuncOp">, AttrSizedOperandSegments]> {
  let summary = "runs a kernel";
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Target_Buffer>:$inputs,
      Variadic<Target_Buffer>:$outputs);
  let assemblyFormat = [{
    $kernel `(` $inputs `)` `writes` `(` $outputs `)` attr-dict `:` functional-type($inputs, $outputs)
  }];
}

def Target_CopyOp : Target_Op<"copy", [HasParent<"FuncOp">, SameTypeOperands]> {
  let summary = "first operand <- second operand; they do not overlap";
  let arguments = (ins Target_Buffer:$to, Target_Buffer:$from);
  let assemblyFormat = "$to `,` $from attr-dict `:` type($to)";
}

#endif
