// SPDX-License-Identifier: Apache-2.0
//
// Tile IR: dialect `tile`. One tile.func is one kernel: a grid of independent programs over flat
// buffers. Its body has ops of MLIR's scf.for, arith, math and vector dialects on scalars and 1-D
// vectors, and the ops of this file for all other purposes. No op depends on a target. The rules
// are checked in C (compiler/tile/verify.c).
#ifndef TSR_TILE_TD
#define TSR_TILE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinTypes.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::tessera::tile";
  let useDefaultTypePrinterParser = 1;
}

class Tile_Op<string mnemonic, list<Trait> traits = []> : Op<Tile_Dialect, mnemonic, traits>;
class Tile_CheckedOp<string mnemonic, list<Trait> traits = []> : Tile_Op<mnemonic, traits> {
  let hasVerifier = 1;
}

//===--- types ---------------------------------------------------------------------------------===//

def Tile_SharedType : TypeDef<Tile_Dialect, "Shared"> {
  let mnemonic = "shared";
  let summary = "is a ring of matrices in the memory that the threads of a program share";
  let description = [{
    `!tile.shared<4x128x64xbf16>` has 4 stages of 128 rows and 64 columns of bf16. Stage number s uses the
    memory of slot s modulo the number of stages.
  }];
  let parameters = (ins "int64_t":$stages, "int64_t":$rows, "int64_t":$columns, "mlir::Type":$element);
  let hasCustomAssemblyFormat = 1;
}

def Tile_FragmentType : TypeDef<Tile_Dialect, "Fragment"> {
  let mnemonic = "fragment";
  let summary = "is a matrix that is distributed over the registers of a program's threads";
  let description = [{
    `!tile.fragment<128x256xf32, acc>` has 128 rows and 256 columns of f32. The role is that of an operand of
    tile.mma: `acc` is the sum, `a` the first factor. The target decides which thread holds which elements.
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$columns, "mlir::Type":$element, StringRefParameter<"">:$role);
  let hasCustomAssemblyFormat = 1;
}

def Tile_Buffer : StaticShapeMemRefOf<[F64, F32, BF16, F16, I64, I32, I16, I8]>;
def Tile_Element : AnyTypeOf<[F64, F32, BF16, F16, I64, I32, I16, I8]>;
def Tile_Value : AnyTypeOf<[Tile_Element, VectorOfRankAndType<[1], [F64, F32, BF16, F16, I64, I32, I16, I8]>],
    "a scalar or a 1-D vector of f64, f32, bf16, f16, i64, i32, i16 or i8">;
def Tile_Float : AnyTypeOf<[F64, F32, VectorOfRankAndType<[1], [F64, F32]>],
    "a scalar or a 1-D vector of f64 or f32">;
def Tile_Mask : VectorOfRankAndType<[1], [I1]>;

def Tile_Dense : Attr<CPred<"::llvm::isa<::mlir::DenseElementsAttr>($_self)">, "dense elements"> {
  let storageType = "::mlir::DenseElementsAttr";
  let returnType = "::mlir::DenseElementsAttr";
  let convertFromStorage = "$_self";
}

// The constraints of tile.load and tile.store on their types.
class Tile_Moves<string value, string buffer> : PredOpTrait<
    "value and buffer have one element type",
    CPred<"::mlir::getElementTypeOrSelf($_op." # value # ".getType()) == "
          "::mlir::getElementTypeOrSelf($_op." # buffer # ".getType())">>;
class Tile_Masks<string value, int mask> : PredOpTrait<
    "the mask has a lane for each of the vector",
    CPred<"$_op.getNumOperands() <= " # mask # " || "
          "(::llvm::isa<::mlir::VectorType>($_op." # value # ".getType()) && "
          "::llvm::cast<::mlir::VectorType>($_op." # value # ".getType()).getShape() == "
          "::llvm::cast<::mlir::VectorType>($_op.getOperand(" # mask # ").getType()).getShape())">>;

def Tile_Lanes : VectorOfRankAndType<[1], [F64, F32, I64, I32, I16, I8, I1]>;

def Tile_FuncOp : Tile_Op<"func", [IsolatedFromAbove, Symbol, SingleBlock]> {
  let summary = "defines a kernel: `grid` independent programs";
  let description = [{
    `tile.func @scale(%x: memref<64xf32>, %y: memref<64xf32>) grid 4 { ... tile.return }`

    Buffers are dense and row-major. The body runs once for each program of the grid; the order and the processor of
    the programs are undefined. Two programs never write the same element.

    outputs   the number of written arguments, which are the last ones; ops that call the kernel need it.
    in_place  the inputs that an output of the same type may overwrite.
    faults    the kernel can report a bad index.
    prepacks  the kernel writes a tensor in another format; it runs again only after the tensor has changed.
    flops, bytes  estimates for one run of the whole grid.

    `tile.func @product(...) grid 64 warps 8 registers 168 shared 196608 { ... }`

    With `warps`, this number of warps (4, 8 or 12) computes a program together. Scalars are the same in all
    warps, and matrices are fragments. Only programs with warps use shared memory, copies and products. The
    result of a program is that of its ops in sequence. The target may run copies ahead of products, in separate
    threads; this never changes a result.

    registers  the largest number of registers per thread.
    shared     the largest number of bytes of shared memory per program.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$grid, OptionalAttr<I64Attr>:$warps,
      OptionalAttr<I64Attr>:$registers, OptionalAttr<I64Attr>:$shared, OptionalAttr<I64Attr>:$outputs,
      OptionalAttr<I64ArrayAttr>:$in_place, OptionalAttr<UnitAttr>:$faults, OptionalAttr<UnitAttr>:$prepacks,
      OptionalAttr<I64Attr>:$flops, OptionalAttr<I64Attr>:$bytes);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
}

def Tile_ReturnOp : Tile_Op<"return", [Pure, Terminator, HasParent<"FuncOp">]> {
  let summary = "ends a program";
  let description = [{
    This op is the last op of a tile.func. It has no operands: the results are the written buffers.
  }];
  let assemblyFormat = "attr-dict";
}

def Tile_ProgramIdOp : Tile_Op<"program_id", [Pure]> {
  let summary = "returns the number of this program, 0 ... grid - 1";
  let description = [{
    Every other input is the same in all programs of the grid.
  }];
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict";
}

def Tile_ProgramEndOp : Tile_Op<"program_end", [Pure]> {
  let summary = "returns the end of the range of programs that this run of the body computes";
  let description = [{
    This op is for CPUs. A body that contains it runs once for all programs that a thread computes together:
    programs tile.program_id up to, but not including, this number. The body does the work of all these
    programs, and in one pass where they are neighbours in memory. The number of programs is undefined.
  }];
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict";
}

def Tile_ConstantOp : Tile_Op<"constant", [Pure, PredOpTrait<
    "the elements are those of the buffer's type",
    CPred<"::llvm::cast<ConstantOp>($_op).getValue().getElementType() == "
          "::llvm::cast<::mlir::ShapedType>($_op.getResult(0).getType()).getElementType() && "
          "::llvm::cast<ConstantOp>($_op).getValue().getType().getShape() == "
          "::llvm::cast<::mlir::ShapedType>($_op.getResult(0).getType()).getShape()">>]> {
  let summary = "returns a read-only buffer that is known at build time";
  let description = [{
    The buffer is part of the device code and aligned to 64 bytes. The result has the shape and the type of the
    elements.
  }];
  let arguments = (ins Tile_Dense:$value);
  let results = (outs Tile_Buffer:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
}

def Tile_ViewOp : Tile_CheckedOp<"view", [Pure]> {
  let summary = "returns a view of an argument with another dense, row-major shape";
  let description = [{
    Operand and result have the same element type and the same number of elements. No element is moved.
  }];
  let arguments = (ins Tile_Buffer:$buffer);
  let results = (outs Tile_Buffer:$result);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer) `->` type($result)";
}

def Tile_SegmentOp : Tile_CheckedOp<"segment", [Pure]> {
  let summary = "returns the buffers of the segment that a program works on";
  let description = [{
    `%number, %size, %x, %y = tile.segment %program of %x0, %y0, %x1, %y1 {first = [0, 3]}
     : memref<900xf32>, memref<900xbf16>, memref<64xf32>, memref<64xbf16> -> memref<900xf32>, memref<900xbf16>`

    The kernel has several segments, each with the same number of buffers. All buffers of a segment have the
    same number of elements. The programs of segment i begin at first[i] and end before the first program of the
    next segment. The results are the program's number within its segment, the number of elements in the
    segment's buffers, and these buffers. The types of the buffers are those of the largest segment; programs
    must not access elements beyond their segment's size.
  }];
  let arguments = (ins Index:$program, Variadic<Tile_Buffer>:$buffers, I64ArrayAttr:$first);
  let results = (outs Index:$number, Index:$size, Variadic<Tile_Buffer>:$parts);
  let assemblyFormat = "$program `of` $buffers attr-dict `:` type($buffers) `->` type($parts)";
}

def Tile_LocalOp : Tile_Op<"local"> {
  let summary = "allocates a buffer for this program, uninitialised, aligned to 64 bytes";
  let description = [{
    The buffer is on the program's stack, or in a GPU's local memory. Each program has its own buffer until the
    program ends.
  }];
  let results = (outs Arg<Tile_Buffer, "", [MemAlloc]>:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tile_LoadOp : Tile_Op<"load", [Tile_Moves<"getResult(0)", "getOperand(0)">, Tile_Masks<"getResult(0)", 2>]> {
  let summary = "loads elements that begin at a flat offset";
  let description = [{
    Lane i of a vector is element `offset + i` of the buffer in row-major order. A lane whose mask bit is off is
    zero, and its memory is not accessed.
  }];
  let arguments = (ins Arg<Tile_Buffer, "", [MemRead]>:$buffer, Index:$offset,
      Optional<Tile_Mask>:$mask);
  let results = (outs Tile_Value:$result);
  let assemblyFormat = [{
    $buffer `[` $offset `]` (`mask` $mask^ `:` type($mask))? attr-dict `:`
    type($buffer) `->` type($result)
  }];
}

def Tile_GatherOp : Tile_CheckedOp<"gather"> {
  let summary = "loads elements from one flat offset per lane";
  let description = [{
    Lane i is element `offsets[i]` of the buffer in row-major order. All offsets are inside the buffer.
  }];
  let arguments = (ins Arg<Tile_Buffer, "", [MemRead]>:$buffer, VectorOfRankAndType<[1], [Index]>:$offsets);
  let results = (outs Tile_Value:$result);
  let assemblyFormat = "$buffer `[` $offsets `]` attr-dict `:` type($buffer) `,` type($offsets) `->` type($result)";
}

def Tile_ScatterOp : Tile_CheckedOp<"scatter"> {
  let summary = "stores elements at one flat offset per lane";
  let description = [{
    `tile.scatter %v, %x[%offsets] : vector<32xi32>, memref<256xi32>, vector<32xindex>`

    Lane i becomes element `offsets[i]` of the buffer in row-major order. All offsets are inside the buffer.
    Lanes with the same offset have the same value.
  }];
  let arguments = (ins Tile_Value:$value, Arg<Tile_Buffer, "", [MemWrite]>:$buffer, VectorOfRankAndType<[1], [Index]>:$offsets);
  let assemblyFormat = "$value `,` $buffer `[` $offsets `]` attr-dict `:` type($value) `,` type($buffer) `,` type($offsets)";
}

def Tile_StoreOp : Tile_Op<"store", [Tile_Moves<"getOperand(0)", "getOperand(1)">, Tile_Masks<"getOperand(0)", 3>]> {
  let summary = "stores elements at a flat offset; see tile.load";
  let description = [{
    With `streamed` the store bypasses the caches, for data that is not read soon. The address must then be a
    multiple of 64 bytes, or of the vector's size if that is smaller, and there is no mask.
  }];
  let arguments = (ins Tile_Value:$value, Arg<Tile_Buffer, "", [MemWrite]>:$buffer, Index:$offset,
      Optional<Tile_Mask>:$mask, UnitAttr:$streamed);
  let assemblyFormat = [{
    $value `,` $buffer `[` $offset `]` (`mask` $mask^ `:` type($mask))? attr-dict `:`
    type($value) `,` type($buffer)
  }];
}

def Tile_PrefetchOp : Tile_Op<"prefetch"> {
  let summary = "prefetches the cache line at a flat offset; any offset is allowed";
  let description = [{
    This op is a hint, which changes no result. `offset` counts elements, as in tile.load. `later` prefetches
    into the second-level cache only, for data that is read after much other data.
  }];
  // MemWrite: an op that only reads and has no result would be dropped.
  let arguments = (ins Arg<Tile_Buffer, "", [MemRead, MemWrite]>:$buffer, Index:$offset, UnitAttr:$later);
  let assemblyFormat = "$buffer `[` $offset `]` attr-dict `:` type($buffer)";
}

def Tile_UntilAlignedOp : Tile_Op<"until_aligned", [Pure]> {
  let summary = "returns the number of elements between a flat offset and the next multiple of 64 bytes";
  let description = [{
    This op is for CPUs. The result is 0 if the address at the offset is a multiple of 64 bytes:
    TSR_BUFFER_ALIGN_BYTES. A buffer that is a part of another buffer may begin at any element.
  }];
  let arguments = (ins Arg<Tile_Buffer, "", []>:$buffer, Index:$offset);
  let results = (outs Index:$result);
  let assemblyFormat = "$buffer `[` $offset `]` attr-dict `:` type($buffer)";
}

def Tile_FetchOp : Tile_Op<"fetch", [PredOpTrait<"elements of both buffers are of one type",
    CPred<"::mlir::cast<::mlir::MemRefType>($_op.getOperand(0).getType()).getElementType() == "
          "::mlir::cast<::mlir::MemRefType>($_op.getOperand(2).getType()).getElementType()">>]> {
  let summary = "begins to copy elements to a local buffer";
  let description = [{
    `tile.fetch %x[%offset] to %l[%at] elements 2048 : memref<64x2048xbf16>, memref<4096xbf16>`

    This op is for GPUs. The program continues while the copy runs; the elements are available after
    tile.fetched. The local buffer has `tile.own`: each lane copies the elements that it will load itself, and
    only a load of the same number of elements at the same offset finds them. An element whose mask bit is off
    becomes zero, and its memory is not accessed.
  }];
  let arguments = (ins Arg<Tile_Buffer, "", [MemRead]>:$from, Index:$offset, Arg<Tile_Buffer, "", [MemWrite]>:$to, Index:$at,
      Optional<Tile_Mask>:$mask, ConfinedAttr<I64Attr, [IntPositive]>:$elements);
  let assemblyFormat = [{
    $from `[` $offset `]` `to` $to `[` $at `]` (`mask` $mask^ `:` type($mask))? `elements` $elements attr-dict `:`
    type($from) `,` type($to)
  }];
}

def Tile_FetchedOp : Tile_Op<"fetched", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits for the copies that tile.fetch began, except the latest ones";
  let description = [{
    `tile.fetched but 2` waits for all copies that began before the last two tile.fetched ops, where this op
    counts as one of the two. Later copies may still be in progress. `but 0` waits for all copies.
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$but);
  let assemblyFormat = "`but` $but attr-dict";
}

def Tile_AddProgramsOp : Tile_Op<"add_programs", [AllTypesMatch<["value", "result"]>]> {
  let summary = "returns the sum over the programs that run side by side";
  let description = [{
    `tile.add_programs %v by %l : vector<768xf32>, memref<768xf32>`

    This op is for kernels with `tile.block_programs` on GPUs. Each program gets the sum of the values of all programs
    in its block, added in the order of the programs. All programs of a block must reach this op. The local
    buffer has `tile.own`, as many elements as the vector, and no other use.
  }];
  let arguments = (ins VectorOfRankAndType<[1], [F32]>:$value, Arg<Tile_Buffer, "", [MemRead, MemWrite]>:$local);
  let results = (outs VectorOfRankAndType<[1], [F32]>:$result);
  let assemblyFormat = "$value `by` $local attr-dict `:` type($value) `,` type($local)";
}

def Tile_GeluOp : Tile_Op<"gelu", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "multiplies x by the normal distribution's cumulative function at x";
  let description = [{
    The operand is a scalar or a vector of floats. The op computes x (1 + erf(x / sqrt(2))) / 2, without
    cancellation for negative x. With `tanh` it computes the usual approximation x / (1 + exp(-2 sqrt(2 / pi)
    (x + 0.044715 x^3))). With `slope` it computes the derivative of the first formula.
  }];
  let arguments = (ins Tile_Float:$input, UnitAttr:$tanh, UnitAttr:$slope);
  let results = (outs Tile_Float:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Tile_DotOp : Tile_CheckedOp<"dot", [Pure, AllTypesMatch<["sum", "result"]>]> {
  let summary = "adds the products of two pairs of bf16 to each sum";
  let description = [{
    `%r = tile.dot %a, %b, %sum : vector<2xbf16>, vector<32xbf16>, vector<16xf32>`

    Lane i is fma(a[2 i], b[2 i], fma(a[2 i + 1], b[2 i + 1], sum[i])), where each fma is rounded once to f32,
    to nearest. If `a` has two elements, all lanes use this pair. A machine with an instruction for this op
    (has_dot of a target) replaces denormal numbers by zero, in the operands and in both sums. This op is for
    CPUs.
  }];
  let arguments = (ins VectorOfRankAndType<[1], [BF16]>:$a, VectorOfRankAndType<[1], [BF16]>:$b,
      VectorOfRankAndType<[1], [F32]>:$sum);
  let results = (outs VectorOfRankAndType<[1], [F32]>:$result);
  let assemblyFormat = "$a `,` $b `,` $sum attr-dict `:` type($a) `,` type($b) `,` type($sum)";
}

def Tile_DotBytesOp : Tile_CheckedOp<"dot_bytes", [Pure, AllTypesMatch<["a", "b", "sum", "result"]>]> {
  let summary = "adds the products of the bytes of two words to each sum";
  let description = [{
    `%r = tile.dot_bytes %a, %b, %sum {a_unsigned} : vector<16xi32>`

    Each lane of a and b consists of four bytes: sum + a0 b0 + a1 b1 + a2 b2 + a3 b3, exactly, modulo 2^32. The bytes
    are signed, or with `a_unsigned` and `b_unsigned` unsigned.
  }];
  let arguments = (ins AnyType:$a, AnyType:$b, AnyType:$sum, UnitAttr:$a_unsigned, UnitAttr:$b_unsigned);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$a `,` $b `,` $sum attr-dict `:` type($result)";
}

def Tile_CheckIndexOp : Tile_Op<"check_index"> {
  let summary = "returns whether 0 <= value < limit, as i1; if not, it sets the fault record";
  let description = [{
    The record has the number `argument` of the kernel's argument, the flat index `element` of the element that
    the value was read from, the value and the limit. The first fault of a launch is kept. With `size`, that is the
    limit, and the attribute its largest value.

    `%ok = tile.check_index %v below 64 size %n of 0[%i]`
  }];
  let arguments = (ins I64:$value, Index:$element, Optional<Index>:$size, I64Attr:$argument, I64Attr:$limit);
  let results = (outs I1:$result);
  let assemblyFormat = "$value `below` $limit (`size` $size^)? `of` $argument `[` $element `]` attr-dict";
}

//===--- between the threads of a program ------------------------------------------------------===//

def Tile_BarrierOp : Tile_CheckedOp<"barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until all threads of the program have reached it; each thread then sees what the others wrote";
  let description = [{
    `tile.barrier` has no operands. All threads of the program must reach the same barrier.
  }];
  let assemblyFormat = "attr-dict";
}

def Tile_ShuffleOp : Tile_CheckedOp<"shuffle", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "sets element i to element `from[i]` of the same warp";
  let description = [{
    `tile.shuffle %x, %from : vector<64xf32>, vector<64xi32>`

    A vector is divided into warps of 32 elements. `from[i]` is a position, modulo 32, in the warp of element i.
  }];
  let arguments = (ins Tile_Lanes:$input, VectorOfRankAndType<[1], [I32]>:$from);
  let results = (outs Tile_Lanes:$result);
  let assemblyFormat = "$input `,` $from attr-dict `:` type($input) `,` type($from)";
}

def Tile_ButterflyOp : Tile_CheckedOp<"butterfly", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "sets element i to element `i xor distance`";
  let description = [{
    `tile.butterfly %x, 16 : vector<32xf32>`

    The distance is a power of two below 32, so that an element comes from the same warp.
  }];
  let arguments = (ins Tile_Lanes:$input, I64Attr:$distance);
  let results = (outs Tile_Lanes:$result);
  let assemblyFormat = "$input `,` $distance attr-dict `:` type($input)";
}

def Tile_VoteOp : Tile_CheckedOp<"vote", [Pure]> {
  let summary = "combines a warp's 32 conditions: `any`, `all`, or `ballot`, which returns all of them as bits";
  let description = [{
    `tile.vote "any" %c : vector<32xi1> -> i1`
    `tile.vote "ballot" %c : vector<32xi1> -> i32`

    Bit i of a ballot is element i.
  }];
  let arguments = (ins StrAttr:$how, VectorOfRankAndType<[1], [I1]>:$input);
  let results = (outs AnyTypeOf<[I1, I32]>:$result);
  let assemblyFormat = "$how $input attr-dict `:` type($input) `->` type($result)";
}

//===--- shared memory and copies --------------------------------------------------------------===//

def Tile_AllocSharedOp : Tile_CheckedOp<"alloc_shared"> {
  let summary = "allocates a ring of matrices in shared memory, uninitialised, until the program ends";
  let description = [{
    `tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>`

    none  rows are stored one after the other.
    xor   columns are stored in blocks of 128 bytes; the rows of a block are stored one after the other. Unit c of 16 bytes in row
          r is at position c xor (r mod 8) of the row, so that 8 rows of a column do not have bank conflicts. Rows
          have whole blocks, and their number is a multiple of 8.

    All rings that are targets of copies have the same number of stages.
  }];
  let arguments = (ins StrAttr:$swizzle);
  let results = (outs Arg<Tile_SharedType, "", [MemAlloc]>:$result);
  let assemblyFormat = "`swizzle` `=` $swizzle attr-dict `:` qualified(type($result))";
}

def Tile_AsyncCopyOp : Tile_CheckedOp<"async_copy"> {
  let summary = "begins to copy a part of a buffer to a stage";
  let description = [{
    `tile.async_copy %a[%row, %column], %ring stage %s : memref<512x256xbf16>, !tile.shared<4x128x64xbf16>`

    The part begins at the indices and has the size of a matrix in the ring; elements outside the buffer are
    zero. Each dimension of the buffer has one index. The last index is a multiple of 16 bytes, and a matrix of
    the ring has a multiple of 2048 bytes. A program numbers its stages 0, 1, 2 and so on. It begins copies to
    each stage once, all of them in one block.
  }];
  let arguments = (ins Arg<Tile_Buffer, "", [MemRead]>:$buffer, Variadic<Index>:$indices,
      Arg<Tile_SharedType, "", [MemWrite]>:$ring, Index:$stage);
  let assemblyFormat = "$buffer `[` $indices `]` `,` $ring `stage` $stage attr-dict `:` type($buffer) `,` qualified(type($ring))";
}

def Tile_WaitAsyncOp : Tile_CheckedOp<"wait_async", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until the copies to a stage are complete and all threads see them";
  let description = [{
    `stage` is an index. This op comes before the ops that read the stage.
  }];
  let arguments = (ins Index:$stage);
  let assemblyFormat = "`stage` $stage attr-dict";
}

def Tile_ReleaseOp : Tile_CheckedOp<"release", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "ends the use of a stage: later copies may overwrite it";
  let description = [{
    `stage` is an index. This op comes after the last read of the stage.
  }];
  let arguments = (ins Index:$stage);
  let assemblyFormat = "`stage` $stage attr-dict";
}

//===--- matrices in registers -----------------------------------------------------------------===//

def Tile_FillOp : Tile_CheckedOp<"fill", [Pure]> {
  let summary = "returns a fragment whose elements all have one value";
  let description = [{
    `tile.fill %zero : f32 -> !tile.fragment<...>` sets every element of the fragment to the scalar.
  }];
  let arguments = (ins AnyTypeOf<[F32, F64]>:$value);
  let results = (outs Tile_FragmentType:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` qualified(type($result))";
}

def Tile_MmaOp : Tile_CheckedOp<"mma", [AllTypesMatch<["acc", "result"]>]> {
  let summary = "returns acc + A B, computed by the matrix units";
  let description = [{
    `tile.mma %a, %b, %acc stage %s {transpose_b} : !tile.shared<...>, !tile.shared<...>, !tile.fragment<...>`

    A is a stage of a ring or a fragment `a`, M x K. B is a stage of a ring, K x N. With `transpose_a` A is
    stored as K x M; with `transpose_b` B is stored as N x K. Products of bf16 and f16 are exact, and the sum is
    in f32. From f32 operands the matrix units use 10 bits of the fraction (tf32), rounded to nearest, or
    truncated where wgmma reads elements that threads copied. wgmma only accepts f32 stored as M x K and N x K.
    The matrix unit decides the order of the sum.
  }];
  let arguments = (ins Arg<AnyTypeOf<[Tile_SharedType, Tile_FragmentType]>, "", [MemRead]>:$a,
      Arg<Tile_SharedType, "", [MemRead]>:$b, Tile_FragmentType:$acc, Index:$stage,
      UnitAttr:$transpose_a, UnitAttr:$transpose_b);
  let results = (outs Tile_FragmentType:$result);
  let assemblyFormat = "$a `,` $b `,` $acc `stage` $stage attr-dict `:` qualified(type($a)) `,` qualified(type($b)) `,` qualified(type($acc))";
}

def Tile_LoadSharedOp : Tile_CheckedOp<"load_shared"> {
  let summary = "returns a stage as a fragment";
  let description = [{
    The result has the elements of stage `stage` of the ring, where `stage` is an index. With `transpose` the
    rows of the stage become the columns of a fragment `acc`.
  }];
  let arguments = (ins Arg<Tile_SharedType, "", [MemRead]>:$ring, Index:$stage, UnitAttr:$transpose);
  let results = (outs Tile_FragmentType:$result);
  let assemblyFormat = "$ring `stage` $stage attr-dict `:` qualified(type($ring)) `->` qualified(type($result))";
}

def Tile_StoreSharedOp : Tile_CheckedOp<"store_shared"> {
  let summary = "stores a fragment in a stage, rounded to its element type";
  let description = [{
    Threads other than the one that stored an element see it after tile.barrier.
  }];
  let arguments = (ins Tile_FragmentType:$value, Arg<Tile_SharedType, "", [MemWrite]>:$ring, Index:$stage);
  let assemblyFormat = "$value `,` $ring `stage` $stage attr-dict `:` qualified(type($value)) `,` qualified(type($ring))";
}

def Tile_LoadFragmentOp : Tile_CheckedOp<"load_fragment"> {
  let summary = "loads a fragment from a buffer, as the second operand of an epilogue fusion";
  let description = [{
    ```mlir
    %r = tile.load_fragment %b[%row, %column] through %ring : memref<512x256xbf16>, !tile.shared<2x128x64xbf16> -> !tile.fragment<128x256xf32, acc>
    …
    %y = tile.map %x at [%row, %column] with %r : …
    tile.store_fragment %y, %c[%row, %column] through %ring : …
    ```

    The load begins at this op. It uses the ring and the positions of the tile.store_fragment that stores the
    result: one `tile.map` uses the fragment, and its result is only stored through this ring. Elements outside
    the buffer are 0.
  }];
  let arguments = (ins Arg<Tile_Buffer, "", [MemRead]>:$buffer, Variadic<Index>:$indices,
      Arg<Tile_SharedType, "", [MemWrite]>:$through);
  let results = (outs Tile_FragmentType:$result);
  let assemblyFormat = [{
    $buffer `[` $indices `]` `through` $through attr-dict `:`
    type($buffer) `,` qualified(type($through)) `->` qualified(type($result))
  }];
}

def Tile_MapOp : Tile_Op<"map", [AllTypesMatch<["value", "result"]>, RecursiveMemoryEffects, SingleBlock]> {
  let summary = "applies an elementwise function to a fragment and to the positions of its elements";
  let description = [{
    ```mlir
    %y = tile.map %x at [%row, %column] : !tile.fragment<128x256xf32, acc> {
    ^bb0(%i: vector<64xindex>, %j: vector<64xindex>, %e: vector<64xf32>):
      %0 = arith.negf %e : vector<64xf32>
      tile.yield %0 : vector<64xf32>
    }
    ```

    The body runs for 64 elements at a time; the order and the choice of these elements are undefined. `i` and
    `j` are their row and column, counted from the indices after `at`. The body stores nothing. With `with %r`
    the body has a fourth argument: elements of a tile.load_fragment or of another computed fragment. With
    `transposed`, `i` counts the columns of the fragment and `j` its rows.
  }];
  let arguments = (ins Tile_FragmentType:$value, Index:$row, Index:$column, Optional<Tile_FragmentType>:$other,
      UnitAttr:$transposed);
  let results = (outs Tile_FragmentType:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $value `at` `[` $row `,` $column `]` (`with` $other^)? attr-dict `:` qualified(type($value))
    (`,` qualified(type($other))^)? $body
  }];
  let hasRegionVerifier = 1;
}

def Tile_SumProgramsOp : Tile_CheckedOp<"sum_programs"> {
  let summary = "returns this program's part of the sum of a fragment over the programs that run together";
  let description = [{
    `tile.sum_programs %x : !tile.fragment<128x128xf32, acc> -> !tile.fragment<128x32xf32, acc>`

    With `tile.together = n` of the kernel, programs n i to n i + n - 1 run at the same time. Each of them sums
    the fragments of all n programs for its part of the columns, beginning with the first program's fragment:
    the first program computes the first n-th of the columns, and so on. All n programs must reach this op
    equally often.
  }];
  let arguments = (ins Tile_FragmentType:$value);
  let results = (outs Tile_FragmentType:$result);
  let assemblyFormat = "$value attr-dict `:` qualified(type($value)) `->` qualified(type($result))";
}

def Tile_YieldOp : Tile_Op<"yield", [Pure, Terminator, HasParent<"MapOp">]> {
  let summary = "returns the result of tile.map's body";
  let description = [{
    The operand is one scalar or vector: the type that the body computes for each element. This op is the last
    op in tile.map.
  }];
  let arguments = (ins Tile_Lanes:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

def Tile_StoreFragmentOp : Tile_CheckedOp<"store_fragment", [AttrSizedOperandSegments]> {
  let summary = "stores a fragment in a buffer, rounded to its element type";
  let description = [{
    `tile.store_fragment %x, %c[%row, %column] through %ring : !tile.fragment<128x256xf32, acc>, memref<512x256xbf16>, !tile.shared<2x128x64xbf16>`

    Elements outside the buffer are not stored. With `through`, whole rows of the fragment are stored through a
    ring, which is faster. This ring has no other use, except that a tile.load_fragment may use it; it has the
    fragment's rows, 128 bytes per row, and swizzle xor. With `transposed` the columns of the fragment become
    rows of the buffer; a ring then has 16-bit elements.
  }];
  let arguments = (ins Tile_FragmentType:$value, Arg<Tile_Buffer, "", [MemWrite]>:$buffer, Variadic<Index>:$indices,
      Optional<Tile_SharedType>:$through, UnitAttr:$transposed);
  let assemblyFormat = [{
    $value `,` $buffer `[` $indices `]` (`through` $through^)? attr-dict `:`
    qualified(type($value)) `,` type($buffer) (`,` qualified(type($through))^)?
  }];
}

def Tile_AttendOp : Tile_CheckedOp<"attend", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "computes attention on the matrix units: a tile of a head's queries over all keys that they see";
  let description = [{
    `tile.attend "forward" (%q, %k, %v, %o, %l) at [%head, %group, %row] through (%rq, %rk, %ro) {scale = 0.125, causal} : (...), (...)`

    The buffers are q [heads, S, D], k and v [groups, T, D], the result o, which has the shape of q, and
    optionally l [heads, S] of f32, the logarithm of the sum of exponentials of each query. The tile begins at
    query `row` of head `head` and has as many queries as the ring of queries has rows; queries outside the
    buffer are left out. The keys and values are those of `group`. The op computes o = softmax(scale q k^T) v.
    With `causal`, query i sees the keys j <= i + T - S. The result of a query that sees no key is 0.

    The rings are the ring of queries, the ring of keys and values, which alternate in its stages, and the ring
    through which o is stored. With `pingpong` the warp groups begin their products in turns. Without wgmma there
    are two rings: o is stored through the ring of queries, which has one stage; each warp computes 16 or 32
    rows of this ring.

    With `dropout`, the weights that become 0 are those of a tessera.attention with the same `stream`. Three
    buffers then follow all other buffers, forward and backward: i64 [B] with the number of the first head of
    each item in the batch, the step (i64), and the seed (i64). In the backward op, t is then multiplied by 1 -
    dropout, and s lacks not only the scale but also the factor 1 / (1 - dropout).

    The matrix unit computes products in f32 and approximates exponentials and logarithms. The softmax weights
    are rounded to the buffers' type. The op processes the blocks of keys from the last one to the first one.

    `tile.attend "backward" (%q, %k, %v, %g, %l, %t, %n, %s, %dk, %dv) at [%head, %group, %row] through (%rk, %rv, %rq, %rg, %rc, %rs, %rr) {scale = 0.125, causal} : (...), (...)`

    This form computes the contribution of 128 keys to the gradients. The keys begin at `row` of head `group`;
    there are as many queries as keys. dk and dv of these keys are complete: they sum over the heads of queries
    from `head` on that share the keys. dq of all queries is computed in parts, which are added to s, of f32
    with the shape of q, without the scale. g is the gradient of o. l and t [heads, S] are f32: l is the
    logarithm of the forward op divided by -scale, and t is the negated sum of g o over the D numbers of a
    query. n [heads, S / step] of i32 counts the tiles of keys that have been added to s; a step has 128 queries
    if D is 64, and 64 queries if D is 128. n is 0 before the kernel. Programs add in a fixed order, so that no
    bit depends on the times at which they run. With `causal`, the programs of a head run from its last keys to
    its first keys.

    The rings are one ring for the keys and one for the values; one for the queries and one for g, with two
    stages of one step each; one for 128 rows by the queries of a step; one for s, of f32; and one for l and t,
    of f32 without swizzle. The op is the only op in the function's block; the kernel has 8 warps.

    `tile.attend "backward_queries" (%q, %k, %v, %g, %l, %t, %dq) at [%head, %group, %row] through (%rq, %rg, %rk, %rv) {scale = 0.125} : (...), (...)`
    `tile.attend "backward_keys" (%q, %k, %v, %g, %l, %t, %dk, %dv) at [%head, %group, %row] through (%rk, %rv, %rq, %rg, %rr) {scale = 0.125} : (...), (...)`

    These two forms compute the same gradients without wgmma, in two independent kernels. The first form
    computes complete dq for the queries of head `head` that begin at `row`; the first ring has one row for each
    query. The second form computes complete dk and dv for keys of head `group`, which sum over the heads of
    queries from `head` on that share the keys. 128 is a multiple of the tile's size. The rings are two rings
    with one stage for the fixed operands, two rings for the operands that are read some rows at a time, and, if
    these are queries, a ring for their l and t. With one more ring, of f32 with two stages and without swizzle,
    half of the warps computes dv and the other half dk of the same keys; the second half reads the weights from
    this ring, one step later.
  }];
  let arguments = (ins StrAttr:$how, Variadic<Tile_Buffer>:$buffers, Variadic<Index>:$indices,
      Variadic<Tile_SharedType>:$rings, F64Attr:$scale, UnitAttr:$causal, UnitAttr:$pingpong,
      OptionalAttr<F64Attr>:$dropout, OptionalAttr<I64Attr>:$stream);
  let assemblyFormat = [{
    $how `(` $buffers `)` `at` `[` $indices `]` `through` `(` $rings `)` attr-dict `:`
    `(` type($buffers) `)` `,` `(` qualified(type($rings)) `)`
  }];
}

#endif
