// A client of HDFS that stays, so that no measured time holds the start of a JVM: `HdfsClient`. Reads
// lines `put|get LOCAL REMOTE` and `rm REMOTE` (files or folders), and answers each with `done` or the error.

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

public class HdfsClient {
    static final int THREADS = 8;

    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        configuration.set("dfs.replication", "1");
        // By default a client waits 400 ms before it asks a second time whether a file is complete.
        configuration.set("dfs.client.block.write.locateFollowingBlock.initial.delay.ms", "5");
        FileSystem hdfs = FileSystem.get(configuration);
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("> ready");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                run(hdfs, threads, line.split(" "));
                System.out.println("> done");
            } catch (Exception error) {
                System.out.println(("> failed: " + error).replace('\n', ' '));
            }
        }
        System.exit(0);
    }

    static void run(FileSystem hdfs, ExecutorService threads, String[] words) throws Exception {
        List<Future<?>> running = new ArrayList<>();
        if (words[0].equals("rm")) {
            hdfs.delete(new Path(words[1]), true);
            return;
        }
        File local = new File(words[1]);
        Path remote = new Path(words[2]);
        boolean isPut = words[0].equals("put");
        if (isPut && local.isFile()) {
            put(hdfs, local, remote);
        } else if (isPut) {
            for (File file : local.listFiles()) {
                running.add(threads.submit(() -> put(hdfs, file, new Path(remote, file.getName()))));
            }
        } else if (hdfs.getFileStatus(remote).isFile()) {
            get(hdfs, remote, local);
        } else {
            local.mkdirs();
            for (FileStatus file : hdfs.listStatus(remote)) {
                running.add(threads.submit(() -> get(hdfs, file.getPath(), new File(local, file.getPath().getName()))));
            }
        }
        for (Future<?> one : running) {
            one.get();
        }
    }

    static Void put(FileSystem hdfs, File local, Path remote) throws Exception {
        hdfs.copyFromLocalFile(false, true, new Path(local.toURI()), remote);
        return null;
    }

    static Void get(FileSystem hdfs, Path remote, File local) throws Exception {
        // The raw local file system: the usual one would write a second file of checksums.
        hdfs.copyToLocalFile(false, remote, new Path(local.toURI()), true);
        return null;
    }
}
