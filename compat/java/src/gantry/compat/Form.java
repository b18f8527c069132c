package gantry.compat;

import java.net.URLDecoder;
import java.net.URLEncoder;
import java.util.LinkedHashMap;
import java.util.Map;

/** One order, answer or event: string members in form encoding. */
final class Form {
    private final Map<String, String> members = new LinkedHashMap<>();

    static Form parse(String line) throws Exception {
        Form f = new Form();
        for (String pair : line.split("&")) {
            int eq = pair.indexOf('=');
            if (eq > 0) {
                f.members.put(URLDecoder.decode(pair.substring(0, eq), "UTF-8"), URLDecoder.decode(pair.substring(eq + 1), "UTF-8"));
            }
        }
        return f;
    }

    Form put(String key, Object value) {
        members.put(key, String.valueOf(value));
        return this;
    }

    /** The member, or "" when it is absent. */
    String get(String key) {
        return members.getOrDefault(key, "");
    }

    int number(String key, int absent) {
        String v = members.get(key);
        return v == null || v.isEmpty() ? absent : Integer.parseInt(v);
    }

    Map<String, String> members() {
        return members;
    }

    @Override
    public String toString() {
        StringBuilder b = new StringBuilder();
        try {
            for (Map.Entry<String, String> e : members.entrySet()) {
                if (b.length() > 0) {
                    b.append('&');
                }
                b.append(URLEncoder.encode(e.getKey(), "UTF-8")).append('=').append(URLEncoder.encode(e.getValue(), "UTF-8"));
            }
        } catch (java.io.UnsupportedEncodingException e) {
            throw new IllegalStateException(e);
        }
        return b.toString();
    }
}
