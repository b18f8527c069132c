import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;

import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;

/**
 * Evaluates SQL92 selectors with RocketMQ's own classes. Standard input has a line for each set of properties, "P" and the property text
 * of a record, and for each selector, "S" and its text, both in Base64 and after a blank. For each selector one line is written with a letter for each
 * set: T true, F false, U null, C a class cast exception, E another; or "-" when it does not compile. Run as a single source file.
 */
public class Selectors {
    public static void main(String[] args) throws Exception {
        List<EvaluationContext> sets = new ArrayList<>();
        PrintStream out = new PrintStream(System.out, false);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line; (line = in.readLine()) != null; ) {
            String text = new String(Base64.getDecoder().decode(line.substring(2)), StandardCharsets.UTF_8);
            if (line.charAt(0) == 'P') {
                Map<String, String> properties = MessageDecoder.string2messageProperties(text);
                sets.add(new MessageEvaluationContext(properties));
            } else {
                out.println(evaluate(text, sets));
            }
        }
        out.flush();
    }

    private static String evaluate(String text, List<EvaluationContext> sets) {
        Expression selector;
        try {
            selector = FilterFactory.INSTANCE.get("SQL92").compile(text);
        } catch (Throwable e) {
            return "-";
        }
        StringBuilder letters = new StringBuilder();
        for (EvaluationContext set : sets) {
            letters.append(letter(selector, set));
        }
        return letters.toString();
    }

    private static char letter(Expression selector, EvaluationContext set) {
        try {
            Object result = selector.evaluate(set);
            if (result == null) {
                return 'U';
            }
            return (Boolean) result ? 'T' : 'F';
        } catch (ClassCastException e) {
            return 'C';
        } catch (Throwable e) {
            return 'E';
        }
    }
}
