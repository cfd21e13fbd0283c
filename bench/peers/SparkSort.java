// Terasort in Spark: `SparkSort INPUT OUTPUT`. A Dataset of binary records, sorted by Spark's own range partitioning.

import java.io.BufferedOutputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.SparkSession;

public class SparkSort {
    static final int RECORD_BYTES = 100;

    public static void main(String[] arguments) throws Exception {
        String target = arguments[1];
        Files.createDirectory(Path.of(target));
        SparkSession spark = SparkSession.builder().getOrCreate();
        JavaSparkContext context = new JavaSparkContext(spark.sparkContext());
        spark.createDataset(context.binaryRecords(arguments[0], RECORD_BYTES).rdd(), Encoders.BINARY())
            .sort("value")
            .javaRDD()
            .mapPartitionsWithIndex((number, records) -> {
                Path path = Path.of(target, String.format("part-%05d", number));
                try (OutputStream out = new BufferedOutputStream(Files.newOutputStream(path), 1 << 20)) {
                    while (records.hasNext()) {
                        out.write(records.next());
                    }
                }
                return Collections.<Integer>emptyIterator();
            }, false)
            .count();
        spark.stop();
    }
}
