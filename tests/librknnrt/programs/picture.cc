// picture MODEL PICTURE FOLDER: a model from memory and a picture as cv::Mat, in C++.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include "check.h"

namespace {

class Net {
public:
    explicit Net(const std::string &path)
    {
        std::ifstream file(path, std::ios::binary);
        std::vector<char> model((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
        OK(rknn_init(&context_, model.data(), static_cast<uint32_t>(model.size()), 0, nullptr));
        input_ = attr_of(context_, RKNN_QUERY_INPUT_ATTR, 0);
        output_ = attr_of(context_, RKNN_QUERY_OUTPUT_ATTR, 0);
    }
    ~Net() { rknn_destroy(context_); }
    Net(const Net &) = delete;
    Net &operator=(const Net &) = delete;

    cv::Size size() const { return {static_cast<int>(input_.dims[2]), static_cast<int>(input_.dims[1])}; }

    std::vector<float> operator()(const cv::Mat &image) const
    {
        CHECK(image.isContinuous() && image.type() == CV_8UC3 && image.size() == size());
        rknn_input input = given(0, image.data, image.total() * image.elemSize(), RKNN_TENSOR_UINT8, RKNN_TENSOR_NHWC);
        std::vector<float> scores(output_.n_elems);
        rknn_output output = {};
        output.want_float = output.is_prealloc = 1;
        output.buf = scores.data();
        output.size = static_cast<uint32_t>(scores.size() * sizeof(float));
        OK(rknn_inputs_set(context_, 1, &input));
        OK(rknn_run(context_, nullptr));
        OK(rknn_outputs_get(context_, 1, &output, nullptr));
        OK(rknn_outputs_release(context_, 1, &output));
        return scores;
    }

private:
    rknn_context context_ = 0;
    rknn_tensor_attr input_ = {}, output_ = {};
};

} // namespace

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    auto net = std::make_unique<Net>(argv[1]);
    cv::Mat picture = cv::imread(argv[2]), image;
    CHECK(!picture.empty());
    cv::cvtColor(picture, image, cv::COLOR_BGR2RGB);
    CHECK(image.size() == net->size());
    const std::vector<float> scores = (*net)(image);
    same(argv[3], "out0.f32", scores.data(), scores.size() * sizeof(float));

    // Another buffer of the same pixels, of cv::Mat's own making, gives the same.
    cv::Mat large, back;
    cv::copyMakeBorder(image, large, 3, 3, 3, 3, cv::BORDER_CONSTANT);
    back = large(cv::Rect(3, 3, image.cols, image.rows)).clone();
    CHECK((*net)(back) == scores);
    std::printf("%d\n", static_cast<int>(std::max_element(scores.begin(), scores.end()) - scores.begin()));
    return 0;
}
