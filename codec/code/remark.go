package code

// SeeFAQ is the sentence that Java's servers append to remarks about topics and
// groups that are missing (FAQUrl.suggestTodo); users search for it.
const SeeFAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
