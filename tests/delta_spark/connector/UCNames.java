package io.unitycatalog.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Schemas and tables by their names, as the older interface of Unity Catalog tells them. */
class UCNames implements TableCatalog, SupportsNamespaces {
  private static final ObjectMapper JSON = new ObjectMapper();
  private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
  private final String name;
  private final String base;

  UCNames(String name, String uri) {
    this.name = name;
    this.base = uri + "/api/2.1/unity-catalog";
  }

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {}

  @Override
  public String name() {
    return name;
  }

  @Override
  public Identifier[] listTables(String[] namespace) {
    String asked = "/tables?catalog_name=" + name + "&schema_name=" + namespace[0];
    List<Identifier> found = new ArrayList<>();
    for (JsonNode table : sent("GET", asked).get("tables")) {
      found.add(Identifier.of(namespace, table.get("name").asText()));
    }
    return found.toArray(new Identifier[0]);
  }

  /** Delta Spark loads the tables that it can read itself, and asks here for all others. */
  @Override
  public Table loadTable(Identifier table) throws NoSuchTableException {
    throw new NoSuchTableException(table);
  }

  @Override
  public boolean dropTable(Identifier table) {
    return sent("DELETE", "/tables/" + name + "." + table.namespace()[0] + "." + table.name()) != null;
  }

  @Override
  public String[][] listNamespaces() {
    List<String[]> found = new ArrayList<>();
    for (JsonNode schema : sent("GET", "/schemas?catalog_name=" + name).get("schemas")) {
      found.add(new String[] {schema.get("name").asText()});
    }
    return found.toArray(new String[0][]);
  }

  @Override
  public String[][] listNamespaces(String[] namespace) {
    return namespace.length == 0 ? listNamespaces() : new String[0][];
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    if (sent("GET", "/schemas/" + name + "." + namespace[0]) == null) {
      throw new NoSuchNamespaceException(namespace);
    }
    return Map.of();
  }

  /** The answer, or null where there is none such. */
  private JsonNode sent(String method, String path) {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(base + path))
            .method(method, HttpRequest.BodyPublishers.noBody())
            .build();
    try {
      HttpResponse<String> answer = http.send(request, HttpResponse.BodyHandlers.ofString());
      if (answer.statusCode() == 404) {
        return null;
      }
      if (answer.statusCode() >= 300) {
        throw new IllegalStateException(answer.statusCode() + ": " + answer.body());
      }
      return answer.body().isEmpty() ? JSON.createObjectNode() : JSON.readTree(answer.body());
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    } catch (InterruptedException error) {
      throw new IllegalStateException(error);
    }
  }

  @Override
  public Table createTable(Identifier table, StructType schema, Transform[] parts, Map<String, String> properties) {
    throw new UnsupportedOperationException("create table");
  }

  @Override
  public Table alterTable(Identifier table, TableChange... changes) {
    throw new UnsupportedOperationException("alter table");
  }

  @Override
  public void renameTable(Identifier before, Identifier after) {
    throw new UnsupportedOperationException("rename table");
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> properties) {
    throw new UnsupportedOperationException("create namespace");
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes) {
    throw new UnsupportedOperationException("alter namespace");
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade) {
    throw new UnsupportedOperationException("drop namespace");
  }
}
