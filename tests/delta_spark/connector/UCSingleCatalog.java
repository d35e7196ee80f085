package io.unitycatalog.spark;

import org.apache.spark.sql.delta.catalog.DeltaCatalog;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Stands in for the class of this name in the connector of Unity Catalog, where that cannot be fetched.
 *
 * Delta Spark takes a catalog for one of Unity Catalog by the name of its class, and then speaks to the server itself:
 * it loads, creates and commits tables by its own client. What is left to the connector are names.
 */
public class UCSingleCatalog extends DeltaCatalog {
  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    setDelegateCatalog(new UCNames(name, options.get("uri")));
    super.initialize(name, options);
  }
}
