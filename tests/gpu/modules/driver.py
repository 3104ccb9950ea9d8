# SPDX-License-Identifier: Apache-2.0
"""The CUDA driver by ctypes, and code as bundles hold it (manifests/README.md): for tests and measurements of kernels."""
import ctypes
import struct

FIELDS = ('threads', 'programs', 'shared', 'scratch', 'registers', 'static', 'spilt', 'blocks', 'map_count')
MAP_FIELDS = ('argument', 'element', 'rank', 'rows', 'columns', 'swizzle')
CUBIN, PTX = 1, 2
MAPS_MAX = 8
ELEMENTS = {1: (9, 2), 2: (6, 2), 3: (7, 4), 4: (11, 4)}  # CUtensorMapDataType, bytes


def read_code(code):
    """(kernels, {kind: image}) of bytes that begin with the mark of version 2, 3 or 4."""
    mark, version, kernel_count, image_count = struct.unpack_from('<8sIII', code)
    assert mark == b'TSRFATB\n' and version in (2, 3, 4), (mark, version)
    at, kernels, images = 20, [], {}
    for _ in range(kernel_count):
        kernel = dict(zip(FIELDS, struct.unpack_from('<9I', code, at)))
        at += 36
        kernel['maps'] = []
        for _ in range(kernel['map_count']):
            m = dict(zip(MAP_FIELDS, struct.unpack_from('<6I', code, at)))
            m['dims'] = struct.unpack_from('<5Q', code, at + 24)
            at += 64
            m['pitch'] = 0
            if version > 3:
                m['pitch'], = struct.unpack_from('<Q', code, at)
                at += 8
            kernel['maps'].append(m)
        kernels.append(kernel)
    rows = [struct.unpack_from('<IIIQ', code, at + 20 * i) for i in range(image_count)]
    at += 20 * image_count
    for kind, _, _, size in rows:
        images[kind] = code[at:at + size]
        at += size
    return kernels, images


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""
    _fields_ = [(n, ctypes.c_uint) for n in ('grid_x', 'grid_y', 'grid_z', 'block_x', 'block_y', 'block_z', 'shared')] + \
        [('stream', ctypes.c_void_p), ('attributes', ctypes.c_void_p), ('attribute_count', ctypes.c_uint)]


class Driver:
    def __init__(self, ordinal=0):
        self.cuda = ctypes.CDLL('libcuda.so.1')
        self.check('cuInit', 0)
        device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self.check('cuDeviceGet', ctypes.byref(device), ordinal)
        self.check('cuDevicePrimaryCtxRetain', ctypes.byref(self.context), device)
        self.check('cuCtxSetCurrent', self.context)
        self.multiprocessors = self.attribute(device, 16)
        self.capability = 10 * self.attribute(device, 75) + self.attribute(device, 76)

    def driver_version(self):
        """The kernel module's, as text; CUDA's where the system does not tell."""
        try:
            with open('/sys/module/nvidia/version', encoding='utf-8') as file:
                return file.read().strip()
        except OSError:
            value = ctypes.c_int()
            self.check('cuDriverGetVersion', ctypes.byref(value))
            return f'CUDA {value.value // 1000}.{value.value % 1000 // 10}'

    def attribute(self, device, number):
        value = ctypes.c_int()
        self.check('cuDeviceGetAttribute', ctypes.byref(value), number, device)
        return value.value

    def check(self, name, *arguments):
        result = getattr(self.cuda, name)(*arguments)
        if result:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorName(result, ctypes.byref(text))
            raise RuntimeError(f'{name}: {text.value.decode() if text.value else result}')

    def allocate(self, size):
        address = ctypes.c_uint64()
        self.check('cuMemAlloc_v2', ctypes.byref(address), ctypes.c_size_t(max(size, 256)))
        return address.value

    def free(self, address):
        self.check('cuMemFree_v2', ctypes.c_uint64(address))

    def upload(self, address, raw):
        self.check('cuMemcpyHtoD_v2', ctypes.c_uint64(address), raw, ctypes.c_size_t(len(raw)))

    def download(self, address, size):
        raw = ctypes.create_string_buffer(size)
        self.check('cuMemcpyDtoH_v2', raw, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return raw.raw

    def wait(self):
        self.check('cuCtxSynchronize')

    def load(self, code, names, kind=CUBIN):
        """{name: Kernel} of the code's kernels, which are in the order of `names`."""
        kernels, images = read_code(code)
        module = ctypes.c_void_p()
        self.check('cuModuleLoadData', ctypes.byref(module), images[kind])
        loaded = {}
        for name, kernel in zip(names, kernels):
            function = ctypes.c_void_p()
            self.check('cuModuleGetFunction', ctypes.byref(function), module, name.encode())
            if kernel['shared']:
                self.check('cuFuncSetAttribute', function, 8, kernel['shared'])
            loaded[name] = Kernel(self, function, kernel)
        return loaded


class Kernel:
    def __init__(self, driver, function, facts):
        self.driver, self.function, self.facts = driver, function, facts
        width = ctypes.c_int()
        driver.check('cuFuncGetAttribute', ctypes.byref(width), 11, function)
        self.cluster = max(width.value, 1)
        self.fitting = self.ask_fitting() if self.cluster > 1 else 0

    def ask_fitting(self):
        """Blocks that run at a time, of those that run together."""
        count = ctypes.c_int()
        config = LaunchConfig(self.cluster, 1, 1, self.facts['threads'], 1, 1, self.facts['shared'])
        self.driver.check('cuOccupancyMaxActiveClusters', ctypes.byref(count), self.function, ctypes.byref(config))
        return count.value * self.cluster

    def encode(self, fact, address):
        storage = ctypes.create_string_buffer(128 + 64)
        at = (ctypes.addressof(storage) + 63) // 64 * 64
        kind, size = ELEMENTS[fact['element']]
        rank = fact['rank']
        dims = (ctypes.c_uint64 * rank)(*fact['dims'][:rank])
        strides, stride = (ctypes.c_uint64 * (rank - 1))(), size
        for d in range(rank - 1):
            stride *= fact['pitch'] if d == 0 and fact['pitch'] else fact['dims'][d]
            strides[d] = stride
        box = (ctypes.c_uint32 * rank)(fact['columns'], fact['rows'], *[1] * (rank - 2))
        ones = (ctypes.c_uint32 * rank)(*[1] * rank)
        self.driver.check('cuTensorMapEncodeTiled', ctypes.c_void_p(at), kind, rank, ctypes.c_uint64(address), dims, strides, box,
                          ones, 0, 3 if fact['swizzle'] else 0, 2, 0)
        return storage, at

    def prepare(self, grid, addresses, stream=0):
        """A function that launches `grid` programs on buffers at these addresses."""
        facts = self.facts
        blocks = -(-grid // facts['programs'])
        if facts['blocks']:
            limit = self.fitting or facts['blocks'] * self.driver.multiprocessors
            blocks = min(blocks, limit - limit % self.cluster)
        fault = self.driver.allocate(64)
        self.driver.upload(fault, bytes(64))
        scratch = self.driver.allocate(facts['scratch'] * blocks) if facts['scratch'] else 0
        values = [ctypes.c_uint64(a) for a in [*addresses, fault, scratch, grid]]
        pointers = [ctypes.addressof(v) for v in values]
        maps = [self.encode(f, addresses[f['argument']]) for f in facts['maps']]
        blank = ctypes.create_string_buffer(256)
        pointers += [at for _, at in maps] + [ctypes.addressof(blank)] * (MAPS_MAX - len(maps))
        array = (ctypes.c_void_p * len(pointers))(*pointers)
        alive = (values, maps, blank, array)

        def launch():
            assert alive
            self.driver.check('cuLaunchKernel', self.function, blocks, 1, 1, facts['threads'], 1, 1, facts['shared'],
                              ctypes.c_void_p(stream), array, None)
        return launch
