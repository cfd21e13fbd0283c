// HDFS with three DataNodes and YARN with two NodeManagers in one process: `MiniCluster FOLDER`. Writes what a client must
// know into `FOLDER/conf` when all are up. Containers of jobs are processes of their own.

import java.io.File;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.mapreduce.v2.MiniMRYarnCluster;

public class MiniCluster {
    public static void main(String[] arguments) throws Exception {
        File folder = new File(arguments[0]);
        Configuration configuration = new Configuration();
        configuration.set("hadoop.tmp.dir", folder.getPath());
        configuration.set("yarn.minicluster.yarn.nodemanager.resource.memory-mb", "6144");
        // The disks of a small machine are fuller than YARN likes.
        configuration.set("yarn.nodemanager.disk-health-checker.enable", "false");
        MiniDFSCluster files = new MiniDFSCluster.Builder(configuration, folder).numDataNodes(3).build();
        configuration.set("fs.defaultFS", files.getURI().toString());
        MiniMRYarnCluster jobs = new MiniMRYarnCluster("bench", 2);
        jobs.init(configuration);
        jobs.start();

        Path conf = folder.toPath().resolve("conf");
        Path written = folder.toPath().resolve("conf.new");
        Files.createDirectories(written);
        // Each kind of default settings is overruled by a file of its own only.
        for (String kind : new String[] {"core", "hdfs", "mapred", "yarn"}) {
            try (OutputStream out = new FileOutputStream(written.resolve(kind + "-site.xml").toFile())) {
                jobs.getConfig().writeXml(out);
            }
        }
        Files.move(written, conf, StandardCopyOption.ATOMIC_MOVE);
        Thread.currentThread().join();
    }
}
