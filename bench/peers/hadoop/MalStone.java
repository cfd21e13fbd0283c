// MalStone in Hadoop MapReduce: `MalStone [-conf …] a|b INPUT OUTPUT`. A first job brings the visits of an entity
// together and adds up what they say of each site; a second one adds up sites, and writes the lines sorted.

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configured;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.Writable;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.Mapper;
import org.apache.hadoop.mapreduce.Reducer;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.SequenceFileInputFormat;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.apache.hadoop.mapreduce.lib.output.SequenceFileOutputFormat;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;

public class MalStone extends Configured implements Tool {
    static final int WEEKS = 53;
    static final long WEEK_MICROS = 7 * 86_400_000_000L;
    static final int[] DAYS_BEFORE = {0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};

    /** A site, and when it was visited: twice the microseconds, with a bit for the flag. */
    public static class Visit implements Writable {
        long site;
        long stamp;

        public void write(DataOutput out) throws IOException {
            out.writeLong(site);
            out.writeLong(stamp);
        }

        public void readFields(DataInput in) throws IOException {
            site = in.readLong();
            stamp = in.readLong();
        }
    }

    /** Visitors and marked ones that come new to a site, week by week. */
    public static class Counts implements Writable {
        int[] cells;

        public void write(DataOutput out) throws IOException {
            out.writeInt(cells.length);
            for (int cell : cells) {
                out.writeInt(cell);
            }
        }

        public void readFields(DataInput in) throws IOException {
            cells = new int[in.readInt()];
            for (int at = 0; at < cells.length; at++) {
                cells[at] = in.readInt();
            }
        }
    }

    public static class Visits extends Mapper<LongWritable, Text, LongWritable, Visit> {
        private final LongWritable entity = new LongWritable();
        private final Visit visit = new Visit();

        @Override
        protected void map(LongWritable key, Text line, Context context) throws IOException, InterruptedException {
            byte[] record = line.getBytes();
            long day = DAYS_BEFORE[(int) number(record, 37, 2)] + number(record, 40, 2) - 1;
            long seconds = day * 86_400 + number(record, 43, 2) * 3_600 + number(record, 46, 2) * 60;
            long micros = (seconds + number(record, 49, 2)) * 1_000_000 + number(record, 52, 6);
            entity.set(number(record, 81, 19));
            visit.site = number(record, 59, 19);
            visit.stamp = micros << 1 | (record[79] - '0');
            context.write(entity, visit);
        }

        private static long number(byte[] record, int at, int digits) {
            long value = 0;
            for (int end = at + digits; at < end; at++) {
                value = value * 10 + (record[at] - '0');
            }
            return value;
        }
    }

    public static class Entities extends Reducer<LongWritable, Visit, LongWritable, Counts> {
        private final Map<Long, int[]> sites = new HashMap<>();

        @Override
        protected void reduce(LongWritable entity, Iterable<Visit> visits, Context context) {
            Map<Long, Long> firsts = new HashMap<>();
            long[] flags = new long[16];
            int count = 0;
            for (Visit visit : visits) {
                firsts.merge(visit.site, visit.stamp >> 1, Math::min);
                if ((visit.stamp & 1) == 1) {
                    flags = count == flags.length ? Arrays.copyOf(flags, 2 * count) : flags;
                    flags[count++] = visit.stamp >> 1;
                }
            }
            Arrays.sort(flags, 0, count);
            for (Map.Entry<Long, Long> first : firsts.entrySet()) {
                int[] cells = sites.computeIfAbsent(first.getKey(), site -> new int[2 * WEEKS]);
                cells[week(first.getValue())]++;
                int next = Arrays.binarySearch(flags, 0, count, first.getValue());
                next = next < 0 ? -next - 1 : next;
                if (next < count) {
                    cells[WEEKS + week(flags[next])]++;
                }
            }
        }

        private static int week(long micros) {
            return (int) (micros / WEEK_MICROS);
        }

        @Override
        protected void cleanup(Context context) throws IOException, InterruptedException {
            Counts counts = new Counts();
            for (Map.Entry<Long, int[]> site : sites.entrySet()) {
                counts.cells = site.getValue();
                context.write(new LongWritable(site.getKey()), counts);
            }
        }
    }

    public static class Sites extends Reducer<LongWritable, Counts, Text, NullWritable> {
        @Override
        protected void reduce(LongWritable site, Iterable<Counts> all, Context context)
                throws IOException, InterruptedException {
            long[] sums = new long[2 * WEEKS];
            for (Counts counts : all) {
                for (int at = 0; at < sums.length; at++) {
                    sums[at] += counts.cells[at];
                }
            }
            boolean byWeek = context.getConfiguration().get("malstone.variant").equals("b");
            long visitors = 0;
            long marked = 0;
            for (int week = 0; week < WEEKS; week++) {
                visitors += sums[week];
                marked += sums[WEEKS + week];
                if (visitors > 0 && (byWeek || week == WEEKS - 1)) {
                    long ratio = (marked * 1_000_000 + visitors / 2) / visitors;
                    String names = byWeek ? site + "," + (week + 1) : site.toString();
                    String numbers = String.format("%d,%d,%d.%06d", marked, visitors, ratio / 1_000_000, ratio % 1_000_000);
                    context.write(new Text(names + "," + numbers), NullWritable.get());
                }
            }
        }
    }

    @Override
    public int run(String[] arguments) throws Exception {
        getConf().set("malstone.variant", arguments[0]);
        Path counts = new Path(arguments[2] + ".counts");
        Job first = job("entities", new Path(arguments[1]), counts);
        first.setMapperClass(Visits.class);
        first.setMapOutputValueClass(Visit.class);
        first.setReducerClass(Entities.class);
        first.setOutputKeyClass(LongWritable.class);
        first.setOutputValueClass(Counts.class);
        first.setOutputFormatClass(SequenceFileOutputFormat.class);
        Job second = job("sites", counts, new Path(arguments[2]));
        second.setInputFormatClass(SequenceFileInputFormat.class);
        second.setMapOutputValueClass(Counts.class);
        second.setReducerClass(Sites.class);
        second.setOutputKeyClass(Text.class);
        second.setOutputValueClass(NullWritable.class);
        // One reduce writes the lines in order; there are few of them.
        second.setNumReduceTasks(1);
        return first.waitForCompletion(false) && second.waitForCompletion(false) ? 0 : 1;
    }

    private Job job(String name, Path input, Path output) throws IOException {
        Job job = Job.getInstance(getConf(), "malstone " + name);
        job.setJarByClass(MalStone.class);
        job.setMapOutputKeyClass(LongWritable.class);
        FileInputFormat.addInputPath(job, input);
        FileOutputFormat.setOutputPath(job, output);
        return job;
    }

    public static void main(String[] arguments) throws Exception {
        System.exit(ToolRunner.run(new MalStone(), arguments));
    }
}
