// stream MODEL PICTURE.ppm [FRAMES]: frames on memory that the NPU reads and writes in place, in C++.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "rknn_api.h"

namespace {

void check(const char *call, int code)
{
    if (code != RKNN_SUCC)
        throw std::runtime_error(std::string(call) + " answers " + std::to_string(code));
}

class Net {
public:
    explicit Net(const char *path) { check("rknn_init", rknn_init(&context_, const_cast<char *>(path), 0, 0, nullptr)); }
    ~Net()
    {
        for (rknn_tensor_mem *mem : memories_)
            rknn_destroy_mem(context_, mem);
        rknn_destroy(context_);
    }
    Net(const Net &) = delete;
    Net &operator=(const Net &) = delete;

    rknn_tensor_attr attr(rknn_query_cmd command) const
    {
        rknn_tensor_attr attr = {};
        check("rknn_query", rknn_query(context_, command, &attr, sizeof attr));
        return attr;
    }

    rknn_tensor_mem *bind(rknn_tensor_attr attr, std::size_t size)
    {
        rknn_tensor_mem *mem = rknn_create_mem(context_, static_cast<uint32_t>(size));
        if (!mem)
            throw std::runtime_error("rknn_create_mem");
        memories_.push_back(mem);
        check("rknn_set_io_mem", rknn_set_io_mem(context_, mem, &attr));
        return mem;
    }

    void run() const { check("rknn_run", rknn_run(context_, nullptr)); }

private:
    rknn_context context_ = 0;
    std::vector<rknn_tensor_mem *> memories_;
};

struct Picture {
    unsigned width = 0, height = 0;
    std::vector<unsigned char> pixels;

    explicit Picture(const char *path)
    {
        std::ifstream file(path, std::ios::binary);
        std::string magic;
        unsigned most = 0;
        file >> magic >> width >> height >> most;
        file.get();
        if (magic != "P6" || most != 255 || width > 8192 || height > 8192)
            throw std::runtime_error(std::string(path) + " is no PPM file (P6, 8 bits)");
        pixels.resize(std::size_t{3} * width * height);
        if (!file.read(reinterpret_cast<char *>(pixels.data()), static_cast<std::streamsize>(pixels.size())))
            throw std::runtime_error(std::string(path) + " is cut off");
    }

    const unsigned char *at(unsigned x, unsigned y) const { return &pixels[std::size_t{3} * (y * width + x)]; }
};

// Nearest pixels, straight into the memory of the input, whose rows may be padded; moved by some pixels per frame.
void draw(const Picture &picture, const rknn_tensor_attr &in, unsigned char *memory, unsigned moved)
{
    const unsigned height = in.dims[1], width = in.dims[2], stride = in.w_stride ? in.w_stride : width;
    for (unsigned y = 0; y < height; y++)
        for (unsigned x = 0; x < width; x++)
            std::memcpy(memory + std::size_t{3} * (y * stride + x),
                        picture.at(std::min(x + moved, width - 1) * picture.width / width, y * picture.height / height), 3);
}

int stream(const char *model, const char *path, unsigned frames)
{
    Net net(model);
    const Picture picture(path);
    rknn_tensor_attr in = net.attr(RKNN_QUERY_NATIVE_INPUT_ATTR), out = net.attr(RKNN_QUERY_OUTPUT_ATTR);
    if (in.fmt != RKNN_TENSOR_NHWC || in.dims[3] != 3)
        throw std::runtime_error("the model takes no picture of three channels");
    in.type = RKNN_TENSOR_UINT8;
    out.type = RKNN_TENSOR_FLOAT32;
    out.size = out.n_elems * sizeof(float);
    rknn_tensor_mem *pixels = net.bind(in, in.size_with_stride), *scores = net.bind(out, out.size);

    const auto started = std::chrono::steady_clock::now();
    for (unsigned frame = 0; frame < frames; frame++) {
        draw(picture, in, static_cast<unsigned char *>(pixels->virt_addr), frame);
        net.run();
        const float *score = static_cast<const float *>(scores->virt_addr);
        std::cout << "frame " << frame << ": class " << std::max_element(score, score + out.n_elems) - score << "\n";
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
    std::cerr << frames / took.count() << " frames a second\n";
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc < 3) {
        std::cerr << "usage: stream MODEL.rknn PICTURE.ppm [FRAMES]\n";
        return 1;
    }
    try {
        return stream(argv[1], argv[2], argc > 3 ? static_cast<unsigned>(std::stoul(argv[3])) : 5);
    } catch (const std::exception &error) {
        std::cerr << "stream: " << error.what() << "\n";
        return 1;
    }
}
