// Skip-gram with negative sampling (Mikolov et al. 2013) of words that are a row of their own and the rows of their
// n-grams (Bojanowski et al. 2017). A warp trains one stretch of the text at a time, each lane with its share of the
// components. All warps read and add to the same rows without locks: additions are atomic, what is read may be a little
// old. SIZE, the number of components and a multiple of 4, is given to the compiler.

constexpr int WARP = 32;
constexpr int STRETCH = 64;  // words
constexpr int TOGETHER = 6;  // targets that are read at a time
constexpr int QUADS = SIZE / 4, SHARE = (QUADS + WARP - 1) / WARP;
constexpr float LARGEST = 6.0f;  // a target whose product is beyond teaches nothing, as in gensim
constexpr unsigned ALL = 0xffffffffu;

struct Text {
    const int *words, *lines;  // the words that were kept, and the line that each is in
    int n_words;
    const int *starts, *ngrams;  // the n-gram rows of word w: ngrams[starts[w]] to before ngrams[starts[w + 1]]
    const int *noise;  // words, as often as they are to be drawn
    unsigned noise_mask;
};

struct Model {
    float4 *inputs, *outputs;
    int window, negative;
};

struct Part {
    float4 of[SHARE];  // a lane's share of a row
};

__device__ unsigned mixed(unsigned x) {
    x = (x ^ (x >> 16)) * 0x85ebca6bu;
    x = (x ^ (x >> 13)) * 0xc2b2ae35u;
    return x ^ (x >> 16);
}

__device__ int lane_of() { return threadIdx.x % WARP; }

__device__ Part row_of(const float4 *rows, long long row) {
    Part part;
#pragma unroll
    for (int s = 0; s < SHARE; ++s) {
        const int quad = lane_of() + s * WARP;
        part.of[s] = quad < QUADS ? __ldcg(rows + row * QUADS + quad) : make_float4(0, 0, 0, 0);
    }
    return part;
}

__device__ void add(Part &sum, const Part &part, float factor) {
#pragma unroll
    for (int s = 0; s < SHARE; ++s) {
        sum.of[s].x += factor * part.of[s].x;
        sum.of[s].y += factor * part.of[s].y;
        sum.of[s].z += factor * part.of[s].z;
        sum.of[s].w += factor * part.of[s].w;
    }
}

__device__ void add_to_row(float4 *rows, long long row, const Part &part, float factor) {
    Part scaled = {};
    add(scaled, part, factor);
#pragma unroll
    for (int s = 0; s < SHARE; ++s) {
        const int quad = lane_of() + s * WARP;
        if (quad < QUADS) atomicAdd(rows + row * QUADS + quad, scaled.of[s]);
    }
}

__device__ float dot(const Part &a, const Part &b) {
    float sum = 0;
#pragma unroll
    for (int s = 0; s < SHARE; ++s)
        sum += a.of[s].x * b.of[s].x + a.of[s].y * b.of[s].y + a.of[s].z * b.of[s].z + a.of[s].w * b.of[s].w;
#pragma unroll
    for (int other = WARP / 2; other > 0; other /= 2) sum += __shfl_xor_sync(ALL, sum, other);
    return sum;
}

// Teach the outputs of one word of the context and of the drawn words; return the change that the input is to have.
__device__ Part train_pair(
    const Text &text, const Model &model, const Part &input, int context, unsigned draw, float rate) {
    const int lane = lane_of();
    int target = lane == 0 ? context : text.noise[mixed(draw + lane * 0x9e3779b9u) & text.noise_mask];
    if (lane > model.negative || (lane > 0 && target == context)) target = -1;
    Part change = {};
    for (int first = 0; first <= model.negative; first += TOGETHER) {
        int targets[TOGETHER];
        Part outputs[TOGETHER];
#pragma unroll
        for (int t = 0; t < TOGETHER; ++t) {
            targets[t] = __shfl_sync(ALL, target, first + t);
            outputs[t] = row_of(model.outputs, max(targets[t], 0));
        }
#pragma unroll
        for (int t = 0; t < TOGETHER; ++t) {
            const float product = dot(input, outputs[t]);
            if (targets[t] < 0 || fabsf(product) >= LARGEST) continue;
            const float label = first + t == 0 ? 1.0f : 0.0f;
            const float step = (label - 1.0f / (1.0f + expf(-product))) * rate;
            add(change, outputs[t], step);
            add_to_row(model.outputs, targets[t], input, step);
        }
    }
    return change;
}

// Train the pairs of the word at one place with each word of its window, whose reach is drawn.
__device__ void train_place(const Text &text, const Model &model, int place, unsigned seed, float rate) {
    const int word = text.words[place], line = text.lines[place];
    const unsigned draw = mixed(place ^ mixed(seed));
    const int reach = model.window - mixed(draw) % model.window;
    int low = max(place - reach, 0), high = min(place + reach, text.n_words - 1);
    while (text.lines[low] != line) ++low;
    while (text.lines[high] != line) --high;
    const int *ngrams = text.ngrams + text.starts[word];
    const int n_ngrams = text.starts[word + 1] - text.starts[word];
    const float scale = n_ngrams ? 1.0f / n_ngrams : 1.0f;  // gensim does not count the word itself
    Part input = {}, total = {};
    add(input, row_of(model.inputs, word), scale);
#pragma unroll 4
    for (int n = 0; n < n_ngrams; ++n) add(input, row_of(model.inputs, ngrams[n]), scale);
    for (int other = low; other <= high; ++other) {
        if (other == place) continue;
        const Part change = train_pair(text, model, input, text.words[other], mixed(draw ^ mixed(other)), rate);
        add(total, change, 1.0f);
        add(input, change, scale * (n_ngrams + 1));  // every row of the word changes
    }
    add_to_row(model.inputs, word, total, 1.0f);
    for (int n = 0; n < n_ngrams; ++n) add_to_row(model.inputs, ngrams[n], total, 1.0f);
}

// Train one pass over the text. The stretches are taken in the order of their number times jump: neighbors in the text
// are not trained at the same time.
extern "C" __global__ void train_epoch(
    const int *words, const int *lines, int n_words, const int *starts, const int *ngrams, const int *noise,
    unsigned noise_mask, float4 *inputs, float4 *outputs, int window, int negative, float first_rate, float last_rate,
    unsigned seed, long long jump, int *next_turn) {
    const Text text = {words, lines, n_words, starts, ngrams, noise, noise_mask};
    const Model model = {inputs, outputs, window, negative};
    const int n_stretches = (n_words + STRETCH - 1) / STRETCH;
    while (true) {
        int turn = lane_of() == 0 ? atomicAdd(next_turn, 1) : 0;
        turn = __shfl_sync(ALL, turn, 0);
        if (turn >= n_stretches) return;
        const float rate = first_rate + (last_rate - first_rate) * turn / n_stretches;
        const int first = int(turn * jump % n_stretches) * STRETCH;
        for (int place = first; place < min(first + STRETCH, n_words); ++place)
            train_place(text, model, place, seed, rate);
    }
}
