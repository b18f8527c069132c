package gantry.compat;

/** Message bodies that both sides can make from a seed, so that only a checksum travels back to the harness. */
final class Body {
    private Body() {
    }

    /** "random" does not compress, "text" repeats 64 bytes. Must equal agent.Body in Go, byte by byte. */
    static byte[] make(String kind, long seed, int size) {
        byte[] b = new byte[size];
        int period = kind.equals("text") ? 64 : size;
        long x = seed * 0x9E3779B97F4A7C15L + 1;
        for (int i = 0; i < size; i++) {
            if (i >= period) {
                b[i] = b[i - period];
                continue;
            }
            if (i % 8 == 0) {
                x ^= x << 13;
                x ^= x >>> 7;
                x ^= x << 17;
            }
            b[i] = (byte) (x >>> (i % 8 * 8));
        }
        return b;
    }
}
